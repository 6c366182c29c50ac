"""Converts columns filled by Rust to Arrow record batches.

They are buffers of plain numbers; in a nullable column the largest value of its type stands for null
(``crates/weir-run``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from weir.run.tables import TABLES, Column, arrow_schema

__all__ = ["empty", "rows"]

_SCHEMAS = {name: arrow_schema(name) for name in TABLES}


def rows(table: str, columns: Mapping[str, Any], kinds: pa.Array) -> pa.RecordBatch:
    """Rows of ``table``; ``columns`` are buffers by name, ``kinds`` the names of the kinds of events.

    A missing nullable column is null in every row: not every method records every column.

    Raises:
        KeyError: no such table, or a column that may not be null is missing.
    """
    count = len(next(iter(columns.values()), ()))
    arrays = [
        pa.nulls(count, column.type)
        if column.nullable and column.name not in columns
        else _array(column, columns[column.name], kinds)
        for column in TABLES[table].columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMAS[table])


def empty(table: str) -> pa.RecordBatch:
    """An empty ``table``: an optional table exists even without rows.

    Raises:
        KeyError: no such table.
    """
    return pa.RecordBatch.from_pylist([], schema=_SCHEMAS[table])


def _array(column: Column, values: Any, kinds: pa.Array) -> pa.Array:
    """``values`` as an Arrow array; in nullable columns the largest value of the type means null."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(_borrow(column.type.index_type, values), kinds)
    if pa.types.is_string(column.type):
        return pa.array(np.asarray(memoryview(values)).view("S16").astype("U16"), column.type)
    if not column.nullable:
        return _borrow(column.type, values)
    numbers = np.asarray(memoryview(values))
    nulls = numbers == np.iinfo(numbers.dtype).max
    if not nulls.any():
        return _borrow(column.type, values)
    if nulls.all():
        return pa.nulls(len(numbers), column.type)
    return pa.array(numbers, column.type, mask=nulls)


def _borrow(type_: pa.DataType, values: Any) -> pa.Array:
    """An Arrow array over the memory of ``values``."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])
