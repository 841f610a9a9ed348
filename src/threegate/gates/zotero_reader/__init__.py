"""ZOTERO READER: items of a copy of a Zotero library, as bounded records."""
