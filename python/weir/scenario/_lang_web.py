"""Language definitions of web pages: `kind: web`."""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass

from weir.language.scalars import BOOLEAN, Integer
from weir.language.spec import key

from ._distribution import Distribution, DistributionType
from ._lang_workload import SIZES, WAITS, Workload

__all__ = ["Web"]

MAX_OBJECTS = 1000
_OBJECTS = DistributionType(
    Integer(1, MAX_OBJECTS, "a number of objects"), "objects", "{pareto: {shape: 2.43, scale: 1}}"
)


@dataclass(frozen=True, kw_only=True)
class Web(Workload):
    """Users that load pages: a document, then its objects over parallel connections, then a pause."""

    objects: Distribution = key(_OBJECTS, "Number of objects of a page, document included.")
    size: Distribution = key(SIZES, "Size of an object.")
    document: Distribution | None = key(
        SIZES,
        "Size of the first object of a page, after which the others are requested. Default: as `size`.",
        default=None,
    )
    think: Distribution | None = key(
        WAITS,
        "Time from the end of a page, the arrival of its last object, to the request of the next.",
        default=None,
    )
    parse: Distribution | None = key(
        WAITS, "Time from the arrival of the document to the requests of the other objects. Default: 0.", default=None
    )
    count: int | None = key(
        Integer(1, 1_000_000, "a number of pages"),
        "Pages of each user. Default: 1, or with a `think` as many as fit.",
        default=None,
    )
    connections: int = key(
        Integer(1, 100, "a number of connections"),
        "Parallel connections of each user, as browsers use with HTTP/1.1. Default: 6.",
        default=6,
    )
    keep_connection: bool = key(
        BOOLEAN,
        "Connections stay open for further objects and pages (HTTP/1.1); `false`: one for each object.",
        default=True,
    )

    @property
    def parallel(self) -> int:
        return self.connections
