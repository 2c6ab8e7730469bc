"""Text files: the lines of a .txt file, CSV with or without a header, and JSON Lines."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv

from nonneg.durable import MOST_BYTES, check_regular_file, read_bounded, read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.tables._vectors import number_columns

csv.field_size_limit(2**31 - 1)  # texts may be long
_BLOCK = 2**26  # bytes of the longest row that can be read
_SHOWN = 40  # characters of a line in messages


def read_lines(path: Path) -> Any:
    """Read the lines of a text file in UTF-8, with line ends of Unix or Windows, as an array `(lines,)`."""
    written = read_bounded(path)
    try:
        text = written.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        _raise_not_utf8(path, written)
    return np.array(text.removesuffix("\n").split("\n") if text else [], dtype=object)


def read_json_lines(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read a file with one JSON object per line; return the objects and all their keys. Empty lines are ignored."""
    rows: list[dict[str, Any]] = []
    keys: dict[str, None] = {}  # an ordered set
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}, is not JSON: {one_line(error)}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}, holds a {type(row).__name__}, expected a JSON object")
        rows.append(row)
        keys.update(dict.fromkeys(row))
    return rows, list(keys)


def _raise_not_utf8(path: Path, written: bytes) -> NoReturn:
    """Raise an error that names the first line that is not UTF-8."""
    for number, line in enumerate(written.split(b"\n"), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"the byte 0x{line[error.start]:02x}"
            raise InputError(f"{path}, line {number}, holds {found}, expected text in UTF-8") from error
    raise InputError(f"{path} holds bytes that are not text, expected text in UTF-8")


@dataclass(frozen=True)
class Csv:
    """The layout of a CSV file.

    Attributes:
        path: the file.
        names: names of the columns: those in the header, or f0, f1, ….
        has_header: whether line 1 holds the names of the columns.
        has_index: whether the first column has no name in the header. It then holds row numbers, as pandas and R
            write them, and no values.
        first: the cells of line 1.
        empty: number of empty lines before line 1, in a file with several columns.
    """

    path: Path
    names: tuple[str, ...]
    has_header: bool
    has_index: bool
    first: tuple[str, ...]
    empty: int

    def first_line(self) -> str:
        """How line 1 was read, for error messages."""
        line = ",".join(self.first)
        shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
        return f"line 1 ({shown!r}) was read as {'the header' if self.has_header else 'values, not as a header'}"


def open_csv(path: Path) -> Csv:
    """Find the layout of a CSV file. Only a file with one column is read beyond its first line.

    Line 1 is a header if it contains no number, or if its numbers are 0, 1, 2, … in order, as pandas numbers
    columns. In a file with one column, line 1 is a header if it is not a number, not empty and not repeated below.
    """
    check_regular_file(path, MOST_BYTES)
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty, expected a line of column names and rows")
    first, empty = _first_cells(path)
    numbers = [cell for cell in first if _is_number(cell)]
    is_first_nameless = len(first) > 1 and first[0] == ""
    if len(first) == 1:
        has_header = bool(first[0]) and not numbers and not _is_repeated(path, first[0])
    else:
        is_counted = numbers == [str(i) for i in range(len(numbers))]
        has_header = not numbers or (is_counted and (len(numbers) > 1 or is_first_nameless))
    names = first if has_header else tuple(f"f{i}" for i in range(len(first)))
    return Csv(path, names, has_header, has_header and is_first_nameless, first, empty)


def _first_cells(path: Path) -> tuple[tuple[str, ...], int]:
    """The cells of the first line that is not empty, and the number of empty lines before it."""
    try:
        with read_errors_as_input_errors(path), path.open(encoding="utf-8-sig", newline="") as file:
            empty, cells = next(((i, row) for i, row in enumerate(csv.reader(file)) if row), (0, []))
    except UnicodeDecodeError:
        _raise_not_utf8(path, read_bounded(path))
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV: {one_line(error)}") from error
    if len(cells) > 1:
        return tuple(cell.strip() for cell in cells), empty
    return ("" if empty or not cells else cells[0].strip(),), 0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_repeated(path: Path, value: str) -> bool:
    written = _read(Csv(path, ("f0",), False, False, (value,), 0), as_text=True).column(0).to_pylist()
    return value in (other.strip() for other in written[1:])


def _read(table: Csv, as_text: bool = False) -> Any:
    """Read an Arrow table; columns of numbers become numbers, unless `as_text` is set."""
    path, columns = table.path, [f"f{i}" for i in range(len(table.names))]
    reading = pa.csv.ReadOptions(
        column_names=columns, skip_rows_after_names=table.has_header + table.empty, block_size=_BLOCK
    )
    # In a file with one column, an empty line is an empty value; with several columns, it is ignored.
    parsing = pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(columns) > 1)
    converting = pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()) if as_text else None)
    try:
        with read_errors_as_input_errors(path):
            return pa.csv.read_csv(path, reading, parsing, converting)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "utf8" in str(error).lower():
            _raise_not_utf8(path, read_bounded(path))
        if table.has_header and len(read_lines(path)) == 1:  # Arrow needs a line break to find the header's end
            raise _without_rows(path) from error
        raise InputError(f"{path} cannot be read as CSV: {one_line(error)}") from error


def _without_rows(path: Path) -> InputError:
    return InputError(f"{path} has only a header, expected rows below it")


def csv_column(table: Csv, position: int, as_text: bool) -> Any:
    """Read one column as an Arrow array; numbers become numbers, unless `as_text` is set."""
    column = _read(table, as_text).column(position)
    if pa.types.is_binary(column.type):  # how Arrow returns text that is not UTF-8
        _raise_not_utf8(table.path, read_bounded(table.path))
    return column


def csv_vectors(table: Csv, kept: list[int]) -> Any:
    """Read the columns at these positions as an array `(rows, width)`."""
    read = _read(table)
    if not read.num_rows:
        raise _without_rows(table.path)
    return number_columns(read.select(kept), [table.names[i] for i in kept], str(table.path))
