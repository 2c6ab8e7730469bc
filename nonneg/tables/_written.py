"""Tables that people write: the lines of a text file, and CSV with or without a header."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line

csv.field_size_limit(2**31 - 1)  # texts may be long
_SHOWN = 40  # letters of a line that are shown


def read_lines(path: Path) -> Any:
    """The lines of a text file in UTF-8, with either kind of line end, as an array `(lines,)` of strings."""
    with read_errors_as_input_errors(path):
        written = path.read_bytes()
    try:
        text = written.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        _refuse_bytes(path, written)
    return np.array(text.removesuffix("\n").split("\n") if text else [], dtype=object)


def _refuse_bytes(path: Path, written: bytes) -> NoReturn:
    """Name the first line that is not UTF-8."""
    for number, line in enumerate(written.split(b"\n"), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"the byte 0x{line[error.start]:02x}"
            raise InputError(f"{path}, line {number}, holds {found}, expected text in UTF-8") from error
    raise InputError(f"{path} holds bytes that are not text, expected text in UTF-8")


@dataclass(frozen=True)
class Csv:
    """A CSV file.

    Attributes:
        path: of the file.
        names: of its columns: those of the header, or f0, f1, ….
        has_header: line 1 names the columns.
        has_index: the first column has no name in the header, as pandas and R write row numbers: it is no value.
        first: the cells of line 1.
        empty: empty lines above line 1, in a file of several columns.
    """

    path: Path
    names: tuple[str, ...]
    has_header: bool
    has_index: bool
    first: tuple[str, ...]
    empty: int

    def said(self) -> str:
        """What line 1 was taken for."""
        line = ",".join(self.first)
        shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
        return f"line 1 ({shown!r}) was taken for {'the header' if self.has_header else 'values, not for a header'}"


def open_csv(path: Path) -> Csv:
    """What the columns of a CSV file are called; nothing else is read, but for a file of one column.

    Line 1 is a header if there is no number in it, or if its numbers are 0, 1, 2, … in order, as pandas numbers
    columns; in a file of one column, if it is neither a number nor empty nor found again further down.
    """
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
    """The cells of the first line, or of the first that is not empty where there are several; those above it."""
    try:
        with read_errors_as_input_errors(path), path.open(encoding="utf-8-sig", newline="") as file:
            empty, cells = next(((i, row) for i, row in enumerate(csv.reader(file)) if row), (0, []))
    except UnicodeDecodeError:
        _refuse_bytes(path, path.read_bytes())
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
    """An Arrow table, its columns as numbers where all of their values are, or all as they are written."""
    path, columns = table.path, [f"f{i}" for i in range(len(table.names))]
    reading = pa.csv.ReadOptions(column_names=columns, skip_rows_after_names=table.has_header + table.empty)
    # In a file of one column an empty line is an empty value; between several columns it is nothing.
    parsing = pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(columns) > 1)
    converting = pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()) if as_text else None)
    try:
        with read_errors_as_input_errors(path):
            return pa.csv.read_csv(path, reading, parsing, converting)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "utf8" in str(error).lower():
            _refuse_bytes(path, path.read_bytes())
        raise InputError(f"{path} cannot be read as CSV: {one_line(error)}") from error


def csv_column(table: Csv, position: int, as_text: bool) -> Any:
    """One column, an Arrow array: numbers where all of its values are, or as they are written."""
    column = _read(table, as_text).column(position)
    if pa.types.is_binary(column.type):  # what Arrow makes of text that is not UTF-8
        _refuse_bytes(table.path, table.path.read_bytes())
    return column


def csv_vectors(table: Csv) -> Any:
    """All columns but the index and `id`, side by side, `(rows, width)`."""
    read, path = _read(table), table.path
    kept = [i for i, name in enumerate(table.names) if name.lower() != "id" and not (table.has_index and i == 0)]
    for i in kept:
        name, column = table.names[i], read.column(i)
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise InputError(f"{path}, column {name}, holds {column.type}, expected numbers in all columns but id")
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise InputError(f"{path}, column {name}, is empty in row {row}, expected a number")
    if not kept:
        raise InputError(f"{path} has no columns but {', '.join(table.names)}, expected some of numbers")
    return np.column_stack([read.column(i).to_numpy() for i in kept])
