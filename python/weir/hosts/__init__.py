"""One home for the hosts of a plan: how they are made, what runs on them, what they say, and how they are removed.

Whatever executes plans on a real kernel is made of these parts - namespaces of this machine, those of a lab's guest,
machines of their own - and so is what emulates a link or measures a path without any plan:

    place, local, relay, guest   where hosts are: this machine, one behind a stream of bytes, a lab's guest
    ssh, facts, survey, fitness  nodes of an inventory as such places; what they are, and what they lack
    wiring, netem, qdiscs        from a plan to namespaces, addresses, routes, disciplines: commands; pure
    programs, congestion, rates  what else a plan asks of Linux: routes of programs, congestion controls, trains
    network, namespaces, needs   hosts on this machine; what this machine lacks for them
    guardian                     what cleans up after a process that made them
    jobs, processes, session     agents and other processes of a run, from job to end
    messages, checks, windows    what they say: reading it, and refusing what no run of the plan says
    merge                        the tables of a run out of the parts that the processes saw
    probes, expectation, selfcheck   packets that prove a network before anything is measured
    load                         whether the machine, and not the protocol, decided a result
    remains                      what runs left on this machine, for ``weir clean``

It knows plans, the columns of runs and inventories; no method, scenario or report.
"""

from __future__ import annotations

__all__ = [
    "checks",
    "congestion",
    "expectation",
    "facts",
    "fitness",
    "guardian",
    "guest",
    "jobs",
    "load",
    "local",
    "merge",
    "messages",
    "namespaces",
    "needs",
    "netem",
    "network",
    "place",
    "probes",
    "processes",
    "programs",
    "qdiscs",
    "rates",
    "relay",
    "remains",
    "selfcheck",
    "session",
    "ssh",
    "survey",
    "windows",
    "wiring",
]
