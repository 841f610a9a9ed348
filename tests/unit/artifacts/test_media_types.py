"""The type of a scan names the languages and the engine that read it."""

import pytest

from threegate.artifacts.media_types import PDF, is_pdf, languages_of, recognised_pdf

ENGINE = "0123456789abcdef" * 4


@pytest.mark.parametrize("languages", [("eng",), ("eng", "deu"), ("chi_sim", "aze_cyrl", "eng")])
def test_languages_are_found_again_in_the_type(languages: tuple[str, ...]) -> None:
    kind = recognised_pdf(languages, ENGINE)
    assert languages_of(kind) == languages
    assert kind.endswith("-0123456789abcdef+pdf")
    assert is_pdf(kind)
    assert recognised_pdf(languages, "f" * 64) != kind


@pytest.mark.parametrize(
    "kind",
    [
        PDF,
        "text/html",
        "application/x-tesseract-0123456789abcdef+pdf",
        "application/x-tesseract-eng+pdf",
        "application/x-tesseract-eng-0123456789abcdeg+pdf",
        "application/x-tesseract-..-0123456789abcdef+pdf",
        "application/x-tesseract-e-0123456789abcdef+pdf",
        "application/x-tesseract-eng-deu-fra-spa-ita-0123456789abcdef+pdf",
        "application/x-tesseract-eng-0123456789abcdef+xml",
    ],
)
def test_other_types_have_no_languages(kind: str) -> None:
    assert languages_of(kind) == ()
    assert is_pdf(kind) is (kind == PDF)
