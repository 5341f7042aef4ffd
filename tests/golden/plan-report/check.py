"""The page is self-contained, its names are escaped, its pictures are there and share no id."""
import re
import sys
from html.parser import HTMLParser

text = open(sys.argv[1], encoding="utf-8").read()


class Page(HTMLParser):
    """Counts elements, collects ids, links and headings."""

    void = {"meta", "br", "img", "link"}

    def __init__(self):
        super().__init__()
        self.stack, self.ids, self.links, self.headings, self.counts = [], [], [], [], {}
        self.policy, self.rows = None, 0

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"]
        self.rows += tag == "tr"
        self.ids += [v for k, v in attrs if k == "id"]
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag not in self.void:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack and self.stack.pop() == tag, tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] in ("h1", "h2"):
            self.headings.append(data)


page = Page()
page.feed(text)
print("policy:", page.policy)
print("rows of tables:", page.rows)
print("open elements:", page.stack)
print("pictures:", page.counts.get("svg"), "scripts:", page.counts.get("script", 0), "bold:", page.counts.get("b"))
print("duplicate ids:", len(page.ids) - len(set(page.ids)))
print("links elsewhere:", [link for link in page.links if not link.startswith("#")])
print("links to nowhere:", [link for link in page.links if link.startswith("#") and link[1:] not in page.ids])
print("style from elsewhere:", re.findall(r"@import|url\((?!#)", text))
print("\n".join(page.headings))
