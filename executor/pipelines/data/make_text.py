#!/usr/bin/env python3
"""make_text.py BOOK FOLDER: cuts a text into lines {"text": ...} of 129 bytes, each beginning with the last byte of the one
before; every tenth run of ten lines is a test. Quotes and dashes become ASCII, so that a character is a byte."""
import json
import pathlib
import sys

book = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
for old, new in (("\u2018", "'"), ("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"'), ("\u2014", "--"), ("\u00f9", "u"), ("\t", " ")):
    book = book.replace(old, new)
begin, end = book.index("CHAPTER I.\nDown"), book.index("THE END")
text = book[begin:end].encode("ascii")
files = [open(pathlib.Path(sys.argv[2]) / f"alice-{kind}.jsonl", "w") for kind in ("train", "test")]
for number, at in enumerate(range(0, len(text) - 128, 128)):
    print(json.dumps({"text": text[at:at + 129].decode()}), file=files[number // 10 % 10 == 9])
