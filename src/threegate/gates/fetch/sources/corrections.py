"""How PubMed and Europe PMC word a correction: `RetractionIn`, `Retraction in`, and so on.

`…In` stands with the work that was corrected, `…Of` and `…For` with the notice.
"""

from typing import Final

_ABOUT_THIS: Final = {
    "retractionin": "retracted",
    "partialretractionin": "retracted",
    "retractedandrepublishedin": "retracted",
    "expressionofconcernin": "concern",
    "erratumin": "corrected",
    "correctedandrepublishedin": "corrected",
    "updatein": "corrected",
}
_ABOUT_ANOTHER: Final = {
    "retractionof": "retracted",
    "partialretractionof": "retracted",
    "expressionofconcernfor": "concern",
    "erratumfor": "corrected",
}
_TYPES_OF_THIS: Final = {"retracted publication": "retracted", "retracted-article": "retracted"}
_TYPES_OF_NOTICES: Final = {
    "retraction of publication": "retracted",
    "retraction": "retracted",
    "expression of concern": "concern",
    "published erratum": "corrected",
    "correction": "corrected",
}


def of_reference(wording: str) -> tuple[str, bool] | None:
    """Return what a reference says, and whether it is a notice about another work."""
    key = "".join(letter for letter in wording[:64].lower() if letter.isalpha())
    if key in _ABOUT_THIS:
        return _ABOUT_THIS[key], False
    return (_ABOUT_ANOTHER[key], True) if key in _ABOUT_ANOTHER else None


def of_type(wording: str) -> tuple[str, bool] | None:
    """Return what a publication type says, and whether the work is a notice."""
    key = wording[:64].lower().strip()
    if key in _TYPES_OF_THIS:
        return _TYPES_OF_THIS[key], False
    return (_TYPES_OF_NOTICES[key], True) if key in _TYPES_OF_NOTICES else None
