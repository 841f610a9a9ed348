"""The languages whose words are stemmed, and which of them a text is written in.  Pure: no I/O.

Languages in Latin script are told apart by their most common words.  A word in another script is
stemmed by the one language that its script stands for.  A wrong guess costs little: a query is
stemmed in every language that the index holds, so it is stemmed wrongly in the same way.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ENGLISH: Final = "en"
LOOKED_AT_WORDS: Final = 100
LEAST_SHARE: Final = 0.03  # of the words: a table of numbers and names has fewer common ones
LEAST_COMPOUND: Final = 8  # letters of a word that may be made of several


@dataclass(frozen=True, slots=True)
class Language:
    """A language in Latin script."""

    code: str
    stemmer: str
    # Begins its stems in the index, so that words of two languages are not confused.  Folding
    # removes these letters, so no other word begins with one.
    tag: str
    common: frozenset[str]
    joins_words: bool  # Kranken|versicherungs|beitrag


def _of(code: str, stemmer: str, tag: str, common: str, *, joins_words: bool = False) -> Language:
    return Language(code, stemmer, tag, frozenset(common.split()), joins_words)


_ROWS: Final = (
    _of(
        ENGLISH,
        "english",
        "",
        "a about all also am an and any are as at be been between both but by can could did do "
        "does done each for from get had has have he her here him his how i if in into is it its "
        "just many may me might more most much must my no nor not of on one only or other our out "
        "over own shall she should so some such than that the their them then there these they "
        "this those to too under up us very was we were what when where which while who whom "
        "whose why will with would you your",
    ),
    _of(
        "de",
        "german",
        "ä",
        "aber als am an auch auf aus bei das dass dem den der des die durch ein eine einem einen "
        "einer eines er es für gegen gibt haben hat im in ist kann mehr mit nach nicht noch nur "
        "oder sich sie sind über um und unter von vor war warum was welche welcher welches wenn "
        "werden wie wird wo wurde wurden zu zum zur zwischen",
        joins_words=True,
    ),
    _of(
        "nl",
        "dutch",
        "ĳ",
        "aan als bij dan dat de deze die dit door een en er geen het hoe in is kan maar meer met "
        "naar niet nog of om onder ook op over te tot tussen uit van veel voor waarom waar wat "
        "welke werd wie wordt worden zijn zoals zich",
        joins_words=True,
    ),
    _of(
        "sv",
        "swedish",
        "å",
        "alla att av de den det dem efter eller en ett från för genom har hur här i inte kan med "
        "men mot mellan mycket när och om på samt sig som så till under vad var varför vid vilka "
        "vilken än är över",
        joins_words=True,
    ),
    _of(
        "da",
        "danish",
        "ø",
        "af alle at blev bliver da de den der det disse efter eller en er et for fra har hvad "
        "hvor hvorfor hvordan i ikke kan man med mellem meget men mod nogle når og også om over "
        "på samt sig som så til under ud ved var",
        joins_words=True,
    ),
    _of(
        "no",
        "norwegian",
        "æ",
        "alle at av ble blir da de den der det disse etter eller en er et for fra har hva hvor "
        "hvorfor hvordan i ikke kan man med mellom mye men mot noen når og også om over på samt "
        "seg som så til under ut ved var",
        joins_words=True,
    ),
    _of(
        "fi",
        "finnish",
        "ö",
        "ei eivät että hän ja jos joka jotka jossa kanssa kuin kuinka kun mikä miksi missä mitä "
        "mukaan mutta myös näiden niiden nämä oli olivat on ovat sekä se sen siitä tai tämä tämän "
        "tässä voi välillä",
        joins_words=True,
    ),
    _of(
        "fr",
        "french",
        "é",
        "au aux avec ce ces cette comme comment dans de des du elle en entre est et être il ils d "
        "je l la le les leur lors mais ne nous on ont ou où par pas plus pour pourquoi qu que "
        "quel quelle quelles quels qui sa se ses si son sont sur un une vous été",
    ),
    _of(
        "es",
        "spanish",
        "ñ",
        "al como con cuál cuáles de del desde donde el ella en entre es esta este estos fue "
        "fueron ha han hasta la las lo los más muy no o para pero por porque qué que quién se "
        "según ser si sin sobre son su sus también un una y ya cómo",
    ),
    _of(
        "pt",
        "portuguese",
        "ã",
        "ao aos as com como da das de do dos e em entre essa este esta foi foram há isso mais mas "
        "muito na nas não no nos num numa o os ou para pela pelas pelo pelos por porque qual "
        "quais que quem são se ser seu sua também um uma é",
    ),
    _of(
        "it",
        "italian",
        "ò",
        "agli al alla alle anche che chi come con cosa da dal dalla degli dei del della delle di "
        "d dell e ed era gli ha hanno i il in la le l lo ma nei nel nell nella non o per perché "
        "più quale quali questa questo sono su sul sulla tra un una uno è",
    ),
    _of(
        "ca",
        "catalan",
        "ç",
        "al als amb aquest aquesta com d de del dels des el els en entre es han i l la les més no "
        "o on pel pels per perquè però que quin quina què se sense ser seu seva sobre són també "
        "un una va és",
    ),
    _of(
        "ro",
        "romanian",
        "ă",
        "a acest această al ale au ca care ce că cu cum de decât din după este fi fost în între "
        "la mai nu o pe pentru prin sau se sunt și ținând un unei unui",
    ),
    _of(
        "pl",
        "polish",
        "ą",
        "a ale co czy dla do i ich jak jako jest już które który która lub ma między na nie o od "
        "oraz po pod przez przy są się tak tego to we za ze że był była było być dlaczego",
    ),
    _of(
        "cs",
        "czech",
        "č",
        "a ale ani by byl byla bylo být co do i jak jako je jeho jejich jsou které který která "
        "mezi na nebo než o od po pod pro proč při se si tak také to ve za že",
    ),
    _of(
        "hu",
        "hungarian",
        "ő",
        "a az és egy ez ezt hogy is volt van nem de csak mint már vagy meg azt amely amelyek ahol "
        "hogyan miért milyen között után által szerint lehet pedig minden ennek annak sem",
        joins_words=True,
    ),
    _of(
        "tr",
        "turkish",
        "ş",
        "bir bu ve ile için de da olarak olan daha gibi çok en kadar ise olduğu sonra göre veya "
        "ya ancak her hangi ne neden nasıl nedir mi mı değil var tarafından arasında üzerinde",
    ),
    _of(
        "id",
        "indonesian",
        "ẓ",
        "yang dan di dengan untuk dari pada adalah dalam ini itu tidak akan atau oleh sebagai ke "
        "juga dapat karena lebih telah bahwa antara apa bagaimana mengapa",
    ),
)
LANGUAGES: Final = {row.code: row for row in _ROWS}
COMPOUND_TAGS: Final = frozenset(row.tag for row in _ROWS if row.joins_words)

# First and last character of a script's block, and the stemmer of its words.
_SCRIPTS: Final = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u077f", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
    ("\u1f00", "\u1fff", "greek"),
)
_LAST_LATIN: Final = "\u024f"
_MORE_LATIN: Final = ("\u1e00", "\u1eff")

_WEIGHT: Final = 720_720  # divisible by every number of languages that share a word
_SHARED: Final = Counter(word for row in _ROWS for word in row.common)
_WEIGHTS: Final = {
    word: tuple((row.code, _WEIGHT // count) for row in _ROWS if word in row.common)
    for word, count in _SHARED.items()
}


def language_of(words: Sequence[str]) -> str | None:
    """Return the language of words as `cut` returns them; None if their common words do not tell.

    A word that several languages share counts in parts.
    """
    return _best(_scores(words))


def languages_of(texts: Sequence[Sequence[str]]) -> list[str]:
    """Return the language of each text of one work; one that does not tell has that of the work."""
    scores = [_scores(words) for words in texts]
    found = [_best(score) for score in scores]
    if None in found:
        overall = _best(sum(map(Counter, scores), Counter())) or ENGLISH
        return [language or overall for language in found]
    return [language for language in found if language]


def _scores(words: Sequence[str]) -> dict[str, int]:
    """Return the languages that have enough of these words as common ones."""
    looked_at = words[:LOOKED_AT_WORDS]
    counts = Counter(looked_at)
    scores: dict[str, int] = {}
    for word in counts.keys() & _WEIGHTS.keys():
        often = counts[word]
        for code, weight in _WEIGHTS[word]:
            scores[code] = scores.get(code, 0) + often * weight
    least = _WEIGHT * max(1.0, LEAST_SHARE * len(looked_at))
    return {code: score for code, score in scores.items() if score >= least}


def _best(scores: Mapping[str, int]) -> str | None:
    """Return the language with the highest score; of equal ones the first in the list."""
    return max(LANGUAGES, key=lambda code: scores.get(code, 0)) if scores else None


def is_latin(word: str) -> bool:
    """Tell whether a word is in Latin script, by its first letter."""
    return word[0] <= _LAST_LATIN or _MORE_LATIN[0] <= word[0] <= _MORE_LATIN[1]


def stemmer_of_script(word: str) -> str | None:
    """Return the stemmer of a word that is not in Latin script; None if there is none."""
    for first, last, stemmer in _SCRIPTS:
        if first <= word[0] <= last:
            return stemmer
    return None
