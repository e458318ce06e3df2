"""Makes small Word documents with the parts that Word writes (ECMA-376)."""

from typing import Final

from tests.support.epub_files import make_zip

_W: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONSHIPS: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
_STYLES: Final = "".join(
    f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{label}"/></w:style>'
    for name, label in {"T": "Title", "berschrift1": "heading 1", "H2": "heading 2"}.items()
)
_LIST: Final = (
    '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>'
    '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
)


def make_paragraph(content: str, style: str = "", *, is_item: bool = False) -> str:
    """Return a paragraph of plain text, or of runs in XML."""
    runs = content if content.startswith("<w:") else make_run(content)
    item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>' if is_item else ""
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{item}</w:pPr>{runs}</w:p>'


def make_run(text: str) -> str:
    """Return a run of text."""
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def make_docx(body: str, *, comments: str = "", footnotes: str = "", properties: str = "") -> bytes:
    """Return a document with a body, comments and footnotes in XML, and core properties."""
    parts = {
        "document": f"<w:body>{body}</w:body>",
        "styles": _STYLES,
        "numbering": _LIST,
        "comments": comments,
        "footnotes": footnotes,
    }
    links = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{name}" Target="{name}.xml"/>'
        for name in parts
        if name != "document"
    )
    xml = {
        f"word/{name}.xml": f'<w:{name} xmlns:w="{_W}">{content}</w:{name}>'
        for name, content in parts.items()
        if content
    }
    return make_zip(
        {
            "_rels/.rels": f'<Relationships xmlns="{_RELATIONSHIPS}"><Relationship Id="1"'
            f' Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/_rels/document.xml.rels": (
                f'<Relationships xmlns="{_RELATIONSHIPS}">{links}</Relationships>'
            ),
            "docProps/core.xml": (
                '<cp:coreProperties xmlns:cp="urn:cp" xmlns:dc="urn:dc" xmlns:dcterms="urn:terms">'
                f"{properties}</cp:coreProperties>"
            ),
            **xml,
        }
    )
