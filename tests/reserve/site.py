#!/usr/bin/env python3
"""An external script that reserves: the example of docs/reservation.md, for nodes that stand in a file."""

import json
import pathlib
import sys

NODES = pathlib.Path(sys.argv[1])
TAKEN = NODES.with_suffix(".taken")


def answer(question, taken):
    """Answers a question; ``taken`` has the nodes of each reservation by its name, none while it waits."""
    every = NODES.read_text().split()
    free = [node for node in every if not any(node in nodes for nodes in taken.values())]
    wanted = question["request"]["nodes"]
    match question["do"]:
        case "submit" if wanted > len(every):
            return {"error": f"this site has fewer than {wanted} nodes"}
        case "submit":
            taken[question["name"]] = []
            return {"id": question["name"]}
        case "find":
            return {"id": question["name"] if question["name"] in taken else None}
        case "release":
            taken.pop(question["id"], None)
            return {}
        case "state" if question["id"] not in taken:
            return {"state": "ended", "why": "it was released"}
    if not taken[question["id"]] and wanted > len(free):
        return {"state": "waiting", "why": f"{len(free)} nodes are free"}
    taken[question["id"]] = taken[question["id"]] or free[:wanted]
    return {"state": "active", "nodes": taken[question["id"]]}


if __name__ == "__main__":
    taken = json.loads(TAKEN.read_text()) if TAKEN.exists() else {}
    print(json.dumps(answer(json.load(sys.stdin), taken)))
    TAKEN.write_text(json.dumps(taken))
