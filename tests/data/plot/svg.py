"""svg.py FILE TEXT...: FILE is well-formed SVG without duplicate ids or numbers that are none, and shows each TEXT."""
import sys
import xml.etree.ElementTree as tree

root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
ids = [e.get("id") for e in root.iter() if e.get("id")]
assert len(ids) == len(set(ids)), "duplicate ids"
for element in root.iter():
    for value in element.attrib.values():
        assert "nan" not in value.lower() and "inf" not in value.lower().split(), (element.tag, value)
shown = ["".join(e.itertext()).strip() for e in root.iter("{http://www.w3.org/2000/svg}text")]
for text in sys.argv[2:]:
    print(("shows " if text in shown else "LACKS ") + text)
    if text not in shown:
        print(shown)
