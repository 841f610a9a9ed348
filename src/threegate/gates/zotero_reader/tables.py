"""The tables of Zotero and of Better BibTeX that are read, with their columns."""

from typing import Final

ZOTERO: Final = {
    "collectionItems": ("collectionID", "itemID"),
    "collections": ("collectionID", "collectionName", "parentCollectionID"),
    "creators": ("creatorID", "firstName", "lastName"),
    "creatorTypes": ("creatorTypeID", "creatorType"),
    "deletedItems": ("itemID",),
    "fields": ("fieldID", "fieldName"),
    "groups": ("groupID", "libraryID"),
    "itemAnnotations": (
        "itemID",
        "parentItemID",
        "type",
        "text",
        "comment",
        "color",
        "pageLabel",
        "sortIndex",
    ),
    "itemAttachments": ("itemID", "parentItemID", "linkMode", "contentType", "path"),
    "itemCreators": ("itemID", "creatorID", "creatorTypeID", "orderIndex"),
    "itemData": ("itemID", "fieldID", "valueID"),
    "itemDataValues": ("valueID", "value"),
    "itemNotes": ("itemID", "parentItemID", "note", "title"),
    "items": ("itemID", "itemTypeID", "libraryID", "key"),
    "itemTags": ("itemID", "tagID"),
    "itemTypes": ("itemTypeID", "typeName"),
    "libraries": ("libraryID", "type"),
    "tags": ("tagID", "name"),
}
REQUIRED: Final = frozenset(
    {"fields", "itemAttachments", "itemData", "itemDataValues", "items", "itemTypes", "libraries"}
)
BETTER_BIBTEX: Final = {"citationkey": ("itemID", "citationKey")}
