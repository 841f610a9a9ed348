"""Characters that look like ASCII ones in the fonts of terminals.

A small table of our own, for what Unicode's compatibility mapping does not already fold
(full-width forms, mathematical letters, ligatures and Roman numerals need no entry): the
letters of alphabets that share shapes with Latin, and signs that pass for an operator, a
quote or a space.  A letter is listed if a reader who expects Latin would take it for that
letter; what is missing here is still caught where a word mixes alphabets.

Spelled by code point: a page of the characters themselves could not be reviewed.
"""

from typing import Final

_LETTERS: Final = (
    # Cyrillic
    ("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb", "aeopcyxsijh"),
    ("\u0501\u051b\u051d\u0475\u044c\u0433\u043a\u043f\u043c\u0442\u0446", "dqwvbrknmtu"),
    ("\u0432\u043d", "bh"),
    ("\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422", "ABE3KMHOPCT"),
    ("\u0423\u0425\u0405\u0406\u0408\u04ae\u050c\u051a\u051c\u0474\u042c", "YXSIJYGQWVb"),
    # Greek
    ("\u03b1\u03b3\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5", "ayenikvoptu"),
    ("\u03c7\u03c9\u03f2\u03f3", "xwcj"),
    ("\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1", "ABEZHIKMNOP"),
    ("\u03a4\u03a5\u03a7\u03f9\u037f", "TYXCJ"),
    # Armenian
    ("\u0585\u0578\u057d\u0570\u0581\u0566\u0575\u0561\u0584\u0555\u053c", "onuhgqjwpOL"),
    ("\u054f\u054d", "SU"),
    # Cherokee
    ("\u13a0\u13a1\u13a2\u13aa\u13ab\u13ac\u13b3\u13b7\u13bb\u13bd\u13c0", "DRTAJEWMHYG"),
    ("\u13c3\u13da\u13de\u13df\u13e2\u13e6\u13d9\u13d4\u13f4", "ZSLCPKVWB"),
    # Lisu, whose letters have the shapes of Latin capitals
    ("\ua4d0\ua4d1\ua4d3\ua4d4\ua4d6\ua4d7\ua4d9\ua4da\ua4dc\ua4dd\ua4de", "BPDTGKJCZFF"),
    ("\ua4df\ua4e0\ua4e1\ua4e2\ua4e3\ua4e4\ua4e5\ua4e6\ua4e7\ua4e8\ua4e9", "MNLSRRVVHGJ"),
    ("\ua4ea\ua4eb\ua4ec\ua4ee\ua4ef\ua4f0\ua4f2\ua4f3\ua4f4", "WXYAAEIOU"),
    # Coptic
    ("\u2c80\u2c82\u2c88\u2c8e\u2c92\u2c94\u2c98\u2c9a\u2c9e\u2ca2\u2ca4", "ABEHIKMNOPC"),
    ("\u2ca6\u2ca8\u2cac\u2c9f\u2ca3\u2ca5\u2ca9", "TYXopcy"),
    # Latin letters that are not the ones of ASCII
    ("\u0131\u0251\u0261\u0269\u028b\u1d04\u1d0f\u1d20\u1d21\u1d22\ua731", "iagivcovwzs"),
    ("\u01c0\u01bd\u026a\u029f", "l5il"),
)
_SIGNS: Final = (
    ("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u02d7\u2043\ufe58", "----------"),
    ("\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u02bd\u02c8", "'''''''''"),
    ("\u201c\u201d\u201e\u201f\u2033\u02ba\u3003", '"""""""'),
    ("\u02cb\u00b4", "`'"),
    ("\u2215\u2044\u2571\u27cb", "////"),
    ("\u2216\u29f5\u29f9\u27cd", "\\\\\\\\"),
    ("\u2217\u204e\u066d", "***"),
    ("\u02d0\u2236\ua789\u05c3\u0703", ":::::"),
    ("\u037e", ";"),
    ("\u2024\u2025\u2026\u00b7", "...."),
    ("\u066b", ","),
    ("\u2502\u2223\u00a6", "|||"),
    ("\u223c\u02dc", "~~"),
    ("\u02c6", "^"),
    ("\u2039\u02c2\u1438\u276e", "<<<<"),
    ("\u203a\u02c3\u1433\u276f", ">>>>"),
    ("\ua78a\u2550", "=="),
    ("\u2768\u2769\u2772\u2773\u2774\u2775", "()[]{}"),
    ("\u2795", "+"),
    ("\ufe5f\u266f", "##"),
    ("\u2800", " "),
    # Letters for Python: `a = b\u01c3=c` assigns to two names
    ("\u01c3\u01c1\u01c2\u1427\u1428\u1429\u0387", "!|=.-+."),
    ("\ua78b\ua78c\u02ee\u144a", "''''"),
)
# Letters of scripts that stand beside Latin ones in honest code; in one word they may be a sign.
_IN_A_WORD: Final = (
    ("\u30fc\u4e00\u3161\u1173\u30cb\u4e8c", "----=="),
    ("\u30ce\u4e3f\u4e36\u4e28\u3021", "//\\||"),
    ("\u5341\u5342\u3007", "++0"),
)


def _table(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {
        other: like for others, likes in pairs for other, like in zip(others, likes, strict=True)
    }


LETTERS: Final = _table(_LETTERS)
SIGNS: Final = _table(_SIGNS)
IN_A_WORD: Final = _table(_IN_A_WORD)
