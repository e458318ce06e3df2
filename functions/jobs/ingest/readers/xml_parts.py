"""Parses XML in the archives of books and documents, which may be hostile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.html.blocks import get_local_name
from functions.jobs.ingest.readers.source_file import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.html.blocks import Element


def parse_xml(data: bytes) -> Element:
    """Parse XML. Entity declarations are rejected: they can expand endlessly or expose local files.

    Raises:
        Unreadable: The data is not well-formed XML, or declares entities.
    """
    from lxml import etree  # only here, because it is heavy

    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        tree = etree.fromstring(data.lstrip(), parser)
    except (etree.LxmlError, ValueError) as error:
        raise Unreadable("contains malformed XML: download it again") from error
    declarations = tree.getroottree().docinfo.internalDTD
    if declarations is not None and any(True for _ in declarations.iterentities()):
        raise Unreadable("declares XML entities, which no document needs")
    return tree


def find_elements(tree: Element, name: str) -> Iterator[Element]:
    """Find the elements with the given name, in any namespace."""
    return (element for element in tree.iter() if get_local_name(element) == name.lower())
