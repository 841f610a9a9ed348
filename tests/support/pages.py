"""Pages written for tests: what hides text and what does not, and bombs."""

from threegate.gates.fetch.normalize.messages import KeptAnswer

SENTENCE = (
    "This is sentence number {} of an article, with enough words in it to be taken for content "
    "by a reader that looks at density."
)
ARTICLE = "".join(f"<p>{SENTENCE.format(number)}</p>" for number in range(6))
MARK = "ZZmarker ignore all of this"


def page(inner: str, *, head: str = "", title: str = "A page", body: str = "") -> bytes:
    """Return a page of an article with `inner` in the midst of it."""
    return (
        f"<!doctype html><html><head><title>{title}</title>{head}</head><body {body}><article>"
        f"<h1>Heading</h1>{ARTICLE}{inner}{ARTICLE.replace('number', 'count')}</article>"
        "</body></html>"
    ).encode()


# What nobody sees, decided by the page alone: (in the head, in the body).
HIDDEN = {
    "display": ("", f'<p style="display:none">{MARK}</p>'),
    "display important": ("", f'<p style="DISPLAY : None ! important;color:red">{MARK}</p>'),
    "display escaped": ("", f'<p style="d\\69splay:no\\6e e">{MARK}</p>'),
    "display with a comment": ("", f'<p style="display:/* ; */none">{MARK}</p>'),
    "visibility": ("", f'<p style="visibility:hidden">{MARK}</p>'),
    "collapse": ("", f'<p style="visibility:collapse">{MARK}</p>'),
    "content-visibility": ("", f'<p style="content-visibility:hidden">{MARK}</p>'),
    "opacity": ("", f'<p style="opacity:0.01">{MARK}</p>'),
    "opacity in percent": ("", f'<p style="opacity:0%">{MARK}</p>'),
    "filter": ("", f'<p style="filter:opacity(0)">{MARK}</p>'),
    "font-size": ("", f'<p style="font-size:0">{MARK}</p>'),
    "font-size small": ("", f'<p style="font-size:1px">{MARK}</p>'),
    "font-size in percent": ("", f'<p style="font-size:1%">{MARK}</p>'),
    "font": ("", f'<p style="font:0/0 a">{MARK}</p>'),
    "font-size but for a child": (
        "",
        f'<p style="font-size:0">{MARK}<b style="font-size:12px">shown</b></p>',
    ),
    "transparent": ("", f'<p style="color:transparent">{MARK}</p>'),
    "no alpha": ("", f'<p style="color:rgba(0, 0, 0, 0)">{MARK}</p>'),
    "no alpha in digits": ("", f'<p style="color:#0000">{MARK}</p>'),
    "text-fill": ("", f'<p style="-webkit-text-fill-color:transparent">{MARK}</p>'),
    "same colour": ("", f'<p style="color:#fff;background:#fffffe">{MARK}</p>'),
    "same colour by words": (
        "",
        f'<p style="color:white;background-color:rgb(255 255 255)">{MARK}',
    ),
    "same colour around": (
        "",
        f'<div style="background:black"><p style="color:#000">{MARK}</p></div>',
    ),
    "same colour by attribute": (
        "",
        f'<table bgcolor="#123456"><tr><td><font color="#123456">{MARK}</font></table>',
    ),
    "white on a bare page": ("", f'<p style="color:white">{MARK}</p>'),
    "white font": ("", f'<font color="#FFFFFF">{MARK}</font>'),
    "off the left": ("", f'<p style="position:absolute;left:-9999px">{MARK}</p>'),
    "off the top": ("", f'<p style="position:fixed;top:-100vh">{MARK}</p>'),
    "far right": ("", f'<p style="position:absolute;left:99999px">{MARK}</p>'),
    "text-indent": ("", f'<p style="text-indent:-999em">{MARK}</p>'),
    "margin": ("", f'<p style="margin-left:-9999px">{MARK}</p>'),
    "translate": ("", f'<p style="transform:translateX(-9999px)">{MARK}</p>'),
    "scale": ("", f'<p style="transform:scale(0)">{MARK}</p>'),
    "clip": ("", f'<p style="position:absolute;clip:rect(0 0 0 0)">{MARK}</p>'),
    "clip-path": ("", f'<p style="clip-path:inset(100%)">{MARK}</p>'),
    "no height": ("", f'<div style="height:0;overflow:hidden"><p>{MARK}</p></div>'),
    "one pixel": ("", f'<div style="width:1px;overflow:hidden"><p>{MARK}</p></div>'),
    "clip-path polygon": ("", f'<p style="clip-path:polygon(0 0, 0 0, 0 0)">{MARK}</p>'),
    "moved beside": ("", f'<p style="position:relative;inset:0 0 0 -9999px">{MARK}</p>'),
    "on edge": ("", f'<p style="transform:rotateX(90deg)">{MARK}</p>'),
    "scale by itself": ("", f'<p style="scale:0">{MARK}</p>'),
    "translate by itself": ("", f'<p style="translate:-9999px 0">{MARK}</p>'),
    "glued": ("", f'<p style="letter-spacing:-1em">{MARK}</p>'),
    "no block size": ("", f'<div style="block-size:0;overflow-y:hidden"><p>{MARK}</p></div>'),
    "white by its lightness": ("", f'<p style="color:hsl(20 10% 100%)">{MARK}</p>'),
    "white with a sheet": ("<style>b{top:0}</style>", f'<p style="color:#fff">{MARK}</p>'),
    "black page": ("<style>body{background:#000}</style>", f'<p style="color:#010101">{MARK}</p>'),
    "white by a rule": ("<style>.x9{color:white}</style>", f'<p class="x9">{MARK}</p>'),
    "zoom": ("", f'<p style="zoom:0">{MARK}</p>'),
    "hidden": ("", f"<p hidden>{MARK}</p>"),
    "hidden until found": ("", f'<p hidden="until-found">{MARK}</p>'),
    "aria-hidden": ("", f'<p aria-hidden="true">{MARK}</p>'),
    "template": ("", f"<template><p>{MARK}</p></template>"),
    "noscript": ("", f"<noscript><p>{MARK}</p></noscript>"),
    "details": ("", f"<details><summary>more</summary><p>{MARK}</p></details>"),
    "dialog": ("", f"<dialog><p>{MARK}</p></dialog>"),
    "popover": ("", f"<div popover><p>{MARK}</p></div>"),
    "nested": ("", f'<div style="display:none"><div hidden><p>{MARK}</p></div></div>'),
    "class": ("<style>.x9{display:none}</style>", f'<p class="a x9">{MARK}</p>'),
    "id": ("<style>#x9 { opacity : 0 }</style>", f'<p id="x9">{MARK}</p>'),
    "path": (
        "<style>article > .a .b{visibility:hidden}</style>",
        f'<div class="a"><p class="b">{MARK}',
    ),
    "list of selectors": ("<style>h9,.x9,b i{display:none}</style>", f'<p class="x9">{MARK}</p>'),
    "on a screen": ("<style>@media screen{.x9{display:none}}</style>", f'<p class="x9">{MARK}</p>'),
    "after a comment": ("<style>/* } */ .x9{display:none}</style>", f'<p class="x9">{MARK}</p>'),
    "stronger rule": (
        "<style>.x9.y{display:none} p{display:block}</style>",
        f'<p class="x9 y">{MARK}</p>',
    ),
    "important rule": (
        "<style>.x9{display:none !important} #y{display:block}</style>",
        f'<p class="x9" id="y" style="display:block">{MARK}</p>',
    ),
    "colours of a rule": (
        "<style>.x9{color:#eee;background:#efefef}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "white by a rule where nobody paints": (
        "<style>.x9{color:white} .y{background-color:red}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "zoom to next to nothing": ("", f'<p style="zoom:0.0001">{MARK}</p>'),
    "oklch": ("", f'<p style="color:oklch(1 0 0)">{MARK}</p>'),
    "oklab on lab": ("", f'<p style="color:oklab(0 0 0);background:lab(0 0 0)">{MARK}</p>'),
    "lch": ("", f'<p style="color:lch(100% 0 0)">{MARK}</p>'),
    "hwb": ("", f'<p style="color:hwb(0 100% 0%)">{MARK}</p>'),
    "color()": ("", f'<p style="color:color(srgb 1 1 1)">{MARK}</p>'),
    "color(display-p3)": ("", f'<p style="color:color(display-p3 1 1 1 / 100%)">{MARK}</p>'),
    "shadow root without a slot": (
        "",
        f'<div><template shadowrootmode="open"><b>x</b></template><p>{MARK}</p></div>',
    ),
    "inherited ink": (
        "",
        f'<div style="color:#fff;background:#000">seen<p style="background:#fff">{MARK}</p></div>',
    ),
    "colours of two rules": (
        "<style>.a{background:#123} .x9{color:#123}</style>",
        f'<div class="a"><p class="x9">{MARK}</p></div>',
    ),
    "ink by a variable": (
        "<style>:root{--w:#fff;--v:var(--w)} .x9{color:var(--v)}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "display by a variable": (
        "<style>:root{--x:none} .x9{display:var(--x)}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "opacity by calc": ("", f'<p style="opacity:calc(1 - 1)">{MARK}</p>'),
    "font-size by clamp": ("", f'<p style="font-size:clamp(0px, 5vw, 1px)">{MARK}</p>'),
    "sizes multiplied": (
        "",
        '<div style="font-size:.3em">' * 4 + f"<p>{MARK}</p>" + "</div>" * 4,
    ),
    "opacities multiplied": (
        "",
        '<div style="opacity:.3">' * 4 + f"<p>{MARK}</p>" + "</div>" * 4,
    ),
    "font-size-adjust": ("", f'<p style="font-size-adjust:0">{MARK}</p>'),
    "indent by its own width": (
        "",
        f'<p style="text-indent:100%;white-space:nowrap;overflow:hidden">{MARK}</p>',
    ),
    "text-fill in the colour of the paper": (
        "",
        f'<p style="-webkit-text-fill-color:#fff">{MARK}</p>',
    ),
    "flat matrix": ("", f'<p style="transform:matrix(1,0,0,0,0,0)">{MARK}</p>'),
    "calc margin": ("", f'<p style="margin-left:calc(-100px * 99)">{MARK}</p>'),
    "scrolled box of no height": (
        "",
        f'<div style="height:0;overflow:auto"><p>{MARK}</p></div>',
    ),
    "rule with rules in it": (
        "<style>.x9{display:none; b{color:red}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "rule in a rule": (
        "<style>article{ .x9{display:none} }</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "rule after a string with a comment": (
        "<style>b{content:'/*'} .x9{display:none} /* '*/</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "overridden in a sheet of another type": (
        "<style>.x9{display:none}</style><style type='x'>p.x9{display:block}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "escaped selector": (
        "<style>.md\\:x9{display:none}</style>",
        f'<p class="md:x9">{MARK}</p>',
    ),
    "phantom": ("", f"<math><mphantom><mtext>{MARK}</mtext></mphantom></math>"),
    "inert gradient": (
        "",
        f'<p style="color:#000;background:linear-gradient(#000,#010101)">{MARK}</p>',
    ),
    "almost no ink": ("", f'<p style="color:rgb(0 0 0 / 4%)">{MARK}</p>'),
    "little ink on paper": ("", f'<p style="color:rgb(0 0 0 / 6%)">{MARK}</p>'),
}
# Not text of the page, and not hidden either.
DROPPED = {
    "comment": f"<!-- {MARK} -->",
    "script": f"<script>'{MARK}'</script>",
    "data": f'<script type="application/ld+json">{{"articleBody":"{MARK}"}}</script>',
    "alt": f'<img alt="{MARK}">',
    "attribute": f'<p title="{MARK}" data-x="{MARK}">words that are there for everybody to see</p>',
    "svg": f"<svg><text>{MARK}</text></svg>",
    "textarea": f"<textarea>{MARK}</textarea>",
    "option": f"<select><option>{MARK}</select>",
    "progress": f"<progress>{MARK}</progress>",
    "title in the text": f"<p>words <title>{MARK}</title></p>",
    "iframe": f'<iframe srcdoc="{MARK}">{MARK}</iframe>',
    "object": f"<object>{MARK}</object>",
    "meta": f'<meta name="description" content="{MARK}">',
}
# What cannot be decided by looking at the page: it stays, and that is said.
UNDECIDED = {
    "sheet outside": ('<link rel="stylesheet" href="/a.css">', f'<p class="x9">{MARK}</p>'),
    "import": ("<style>@import url(a.css);</style>", f'<p class="x9">{MARK}</p>'),
    "narrow screen": (
        "<style>@media (max-width:99999px){.x9{display:none}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "strange selector": (
        "<style>.x9:not(.y):nth-child(n){display:none}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "shown on a wide screen": (
        "<style>.x9{display:none} @media (min-width:9px){.x9{display:block}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "variable": ("", f'<p style="display:var(--x)">{MARK}</p>'),
    "behind": ("", f'<p style="position:absolute;z-index:-1">{MARK}</p>'),
    "masked": ("", f'<p style="mask-image:linear-gradient(#0000,#0000)">{MARK}</p>'),
    "color-mix": ("", f'<p style="color:color-mix(in srgb, white, white)">{MARK}</p>'),
    "relative colour": ("", f'<p style="color:rgb(from white r g b)">{MARK}</p>'),
    "system colour": ("", f'<p style="color:Canvas;background:Canvas">{MARK}</p>'),
    "light-dark": ("", f'<p style="color:light-dark(white, black)">{MARK}</p>'),
    "odd paper": ("", f'<p style="background:color-mix(in srgb, black, black)">{MARK}</p>'),
    "picture": ("", f'<p style="background:url(black.png)">{MARK}</p>'),
    "picture of no known size": (
        "",
        f'<p style="background:url(black.png) no-repeat left">{MARK}</p>',
    ),
    "overlay": (
        "",
        f'<p>{MARK}</p><div style="position:absolute;inset:0;background:#fff"></div>',
    ),
    "overlay by margin": (
        "",
        f'<p>{MARK}</p><div style="margin-top:-80px;height:80px;background:#fff"></div>',
    ),
    "overlay by a rule": (
        "<style>.c{position:absolute;inset:0;background:white}</style>",
        f'<p>{MARK}</p><div class="c"></div>',
    ),
    "overlay by a pseudo-element": (
        "<style>.x9::after{content:'';position:absolute;inset:0;background:#fff}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "overlay by a picture": ("", f'<p>{MARK}</p><img style="position:absolute;top:0" src="x">'),
    "overlay by a shadow": (
        "",
        f'<p>{MARK}</p><p style="box-shadow:0 0 0 500px #fff">words</p>',
    ),
    "first line": (
        "<style>.x9::first-line{color:#fff}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "not under the pointer": (
        "<style>.x9:not(:hover){display:none}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "has": ("<style>p:has(b){display:none}</style>", f'<p class="x9"><b>{MARK}</b></p>'),
    "white by an odd selector": (
        "<style>.x9:nth-child(n){color:#fff}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "checked": (
        "<style>input:checked ~ .x9{display:none}</style>",
        f'<input type="checkbox" checked><p class="x9">{MARK}</p>',
    ),
    "print and screen": (
        "<style>@media print, screen{.x9{display:none}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "layer": ("<style>@layer a{.x9{display:none}}</style>", f'<p class="x9">{MARK}</p>'),
    "container": (
        "<style>@container (min-width:1px){.x9{opacity:0}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "supports": (
        "<style>@supports (display:grid){.x9{font-size:0}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "animation": (
        "<style>@keyframes h{to{opacity:0}} .x9{animation:h 1s forwards}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "one of two variables": (
        "<style>:root{--x:block} .dark{--x:none} .x9{display:var(--x)}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "ignored value": (
        "<style>.x9{display:none;display:bogus}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "rotate3d": ("", f'<p style="transform:rotate3d(1,0,0,90deg)">{MARK}</p>'),
    "perspective": ("", f'<p style="transform:perspective(1px) translateZ(2px)">{MARK}</p>'),
    "clip-path url": ("", f'<p style="clip-path:url(#a)">{MARK}</p>'),
    "clip-path shape": ("", f'<p style="clip-path:polygon(0 0, 1px 0, 0 1px)">{MARK}</p>'),
    "mask": ("", f'<p style="-webkit-mask:linear-gradient(#0000,#0000)">{MARK}</p>'),
    "blend": ("", f'<p style="mix-blend-mode:screen">{MARK}</p>'),
    "blur": ("", f'<p style="filter:blur(20px)">{MARK}</p>'),
    "brightness": ("", f'<p style="filter:brightness(0)">{MARK}</p>'),
    "contents replaced": ("", f'<p style="content:url(x.png)">{MARK}</p>'),
    "dots for letters": ("", f'<p style="-webkit-text-security:disc">{MARK}</p>'),
    "motion path": ("", f"<p style=\"offset-path:path('M -9999 0')\">{MARK}</p>"),
    "letters reversed": ("", f'<p style="unicode-bidi:bidi-override">{MARK}</p>'),
    "bdo": ("", f'<bdo dir="rtl">{MARK}</bdo>'),
    "track of no height": (
        "",
        f'<div style="display:grid;grid-template-rows:0fr"><p>{MARK}</p></div>',
    ),
    "font of the page": (
        "<style>@font-face{font-family:a;src:url(data:font/woff;base64,AA)}</style>",
        f'<p style="font-family:a">{MARK}</p>',
    ),
    "shadow root with a slot": (
        "",
        f'<div><template shadowrootmode="open"><slot></slot></template><p>{MARK}</p></div>',
    ),
    "small print": ("", f'<p style="font-size:3px">{MARK}</p>'),
    "details of one name": ("", f'<details open name="a"><summary>s</summary>{MARK}</details>'),
}
# What looks like hiding and is not.
SHOWN = {
    "display": ("", f'<p style="display:block">{MARK}</p>'),
    "a broken style": ("", f'<p style="none:display;;:;opacity">{MARK}</p>'),
    "opacity": ("", f'<p style="opacity:0.9">{MARK}</p>'),
    "white on black": ("", f'<p style="color:#fff;background:#000">{MARK}</p>'),
    "small margin": ("", f'<p style="margin-left:-20px;text-indent:-2em">{MARK}</p>'),
    "at the left": ("", f'<p style="position:absolute;left:-5px;top:0">{MARK}</p>'),
    "aria": ("", f'<p aria-hidden="false">{MARK}</p>'),
    "details": ("", f"<details open><summary>s</summary><p>{MARK}</p></details>"),
    "overridden": (
        "<style>.x9{display:none} p.x9{display:block}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "own style": (
        "<style>.x9{display:none}</style>",
        f'<p class="x9" style="display:block">{MARK}',
    ),
    "printed": ("<style>@media print{.x9{display:none}}</style>", f'<p class="x9">{MARK}</p>'),
    "before it": ("<style>.x9::before{display:none}</style>", f'<p class="x9">{MARK}</p>'),
    "under the pointer": ("<style>.x9:hover{display:none}</style>", f'<p class="x9">{MARK}</p>'),
    "white on a black page": (
        "<style>body{background:#000;color:#fff} .x9{color:#fff}</style>",
        f'<p class="x9" style="color:white">{MARK}</p>',
    ),
    "white by a rule, but not in the end": (
        "<style>.x9{color:#fff} p.x9{color:#333}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "white where others paint": (
        "<style>article{background:#123}</style>",
        f'<p style="color:#fff">{MARK}</p>',
    ),
    "oklch": ("", f'<p style="color:oklch(0.4 0.1 20)">{MARK}</p>'),
    "lab on lab": ("", f'<p style="color:lab(100 0 0);background:lab(20 0 0)">{MARK}</p>'),
    "zoom": ("", f'<p style="zoom:1.2">{MARK}</p>'),
    "font by calc": ("", f'<p style="font-size:calc(1rem + 1vw)">{MARK}</p>'),
    "ordinary layout": (
        "<style>.x9{position:relative;overflow:hidden;width:50%;margin:0 auto;rotate:2deg}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "dark inside": (
        "",
        f'<div style="background:#000;color:#fff"><p style="color:#ddd">{MARK}</p></div>',
    ),
    "dark child of white ink": (
        "",
        f'<div style="color:#fff"><p style="color:#000">{MARK}</p></div>',
    ),
    "gradient": (
        "",
        f'<p style="color:#000;background:linear-gradient(#eee,#fff)">{MARK}</p>',
    ),
    "keyframes of others": (
        "<style>@keyframes h{to{opacity:0}} .y{animation:h 1s}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "harmless in the dark": (
        "<style>@media (prefers-color-scheme:dark){body{background:#000;color:#fff}}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "small shadow": ("", f'<p style="box-shadow:0 1px 3px #0003">{MARK}</p>'),
    "icon": ("", f'<p style="background:url(i.png) no-repeat left / 16px">{MARK}</p>'),
    "variable": (
        "<style>:root{--x:block;--ink:#333} .x9{display:var(--x);color:var(--ink)}</style>",
        f'<p class="x9">{MARK}</p>',
    ),
    "mask without text": ("", f'<i style="mask:url(x)"></i><p>{MARK}</p>'),
    "nobody": ("<style>.y{display:none}</style>", f'<p class="x9">{MARK}</p>'),
}

# Declarations of `.x9`: those that hide its text, and much the same ones that do not.  Many of
# the second halves of a pair are refused by browsers, and the declaration before is in force.
DECLARED = {
    "contain": ("contain:strict", "contain:layout"),
    "contain size": ("contain:size;overflow:clip", "contain:style;overflow:clip"),
    "contain width": ("contain:inline-size;overflow:clip", "contain:layout;overflow:clip"),
    "container-type": ("container-type:size;overflow:hidden", "overflow:hidden"),
    "container": ("container:a / size;overflow:hidden", "container:a / normal;overflow:hidden"),
    "column": ("display:table-column", "display:table-cell"),
    "columns": ("display:table-column-group", "display:table-row-group"),
    "aspect-ratio": ("width:100px;aspect-ratio:1000/1;overflow:hidden", "overflow:hidden"),
    "line-clamp": ("-webkit-line-clamp:1;overflow:hidden", "-webkit-line-clamp:none"),
    "one line": ("white-space:nowrap;overflow:hidden", "white-space:normal;overflow:hidden"),
    "stroke": ("-webkit-text-stroke:10px #fff", "-webkit-text-stroke:0"),
    "line through": ("text-decoration:line-through 50px #fff", "text-decoration:line-through"),
    "thick line": ("text-decoration-thickness:2em", "text-decoration-thickness:1px"),
    "shadow inside": ("box-shadow:inset 0 0 0 99px #000", "box-shadow:inset 0 0 1px #000"),
    "outline inside": ("outline:60px solid #fff;outline-offset:-60px", "outline:1px solid #fff"),
    "border-image": ("border-image:linear-gradient(#000,#000) 1 fill", "border-image:none"),
    "picture all over": (
        "background:url(b.png) no-repeat center / cover",
        "background:url(b.png) no-repeat left / 16px 16px",
    ),
    "gradient of one pixel": (
        "color:#fff;background:linear-gradient(#000,#000) no-repeat 0 0 / 1px 1px",
        "color:#fff;background:linear-gradient(#000,#000)",
    ),
    "gradient of no size": (
        "color:#fff;background-image:linear-gradient(#000,#000);background-size:0 0",
        "color:#fff;background-image:linear-gradient(#000,#000)",
    ),
    "paper in letters": (
        "color:#fff;background:#000;background-clip:text",
        "color:#fff;background:#000;background-clip:border-box",
    ),
    "backdrop": ("backdrop-filter:brightness(0)", "backdrop-filter:none"),
    "blended paper": ("background-blend-mode:multiply", "background-blend-mode:normal"),
    "all": ("all:inherit", "opacity:inherit;opacity:1"),
    "run-in": ("display:none;display:run-in", "display:none;display:block"),
    "two displays": ("display:none;display:block block", "display:none;display:block"),
    "opacity in pixels": ("opacity:0;opacity:1px", "opacity:0;opacity:1"),
    "size without a unit": ("font-size:0;font-size:16", "font-size:0;font-size:16px"),
    "font without a family": ("font-size:0;font:16px", "font-size:0;font:16px a"),
    "negative size": ("font-size:0;font-size:-16px", "font-size:0;font-size:16px"),
    "square pixels": ("font-size:0;font-size:calc(4px * 4px)", "font-size:calc(4px * 4)"),
    "sum of unlike things": ("font-size:0;font-size:calc(9px + 9)", "font-size:calc(9px + 9px)"),
    "height without a unit": ("overflow:hidden;height:0;height:100", "overflow:hidden;height:auto"),
    "left without a unit": (
        "position:absolute;left:-9999px;left:5",
        "position:absolute;left:-9999px;left:5px",
    ),
    "hsl without percent": ("color:#fff;color:hsl(0,0,0)", "color:#fff;color:hsl(0,0%,0%)"),
    "rgb with one comma": ("color:#fff;color:rgb(0,0 0)", "color:#fff;color:rgb(0 0 0)"),
    "far indent": ("text-indent:2000px;overflow:hidden", "text-indent:20px;overflow:hidden"),
    "off the left by the right": ("position:absolute;right:2000px", "position:absolute;right:20px"),
    "beside its box": ("position:absolute;right:100%", "position:absolute;right:10%"),
    "just off the top": ("position:fixed;top:-50px", "position:fixed;top:-5px"),
    "just off the left": ("position:absolute;left:-200px", "position:absolute;left:-10px"),
    "margin-inline": ("margin-inline:-9999px", "margin-inline:-9px"),
    "margin-block-start": ("margin-block-start:-9999px", "margin-block-start:-5px"),
    "margin to the right": ("margin-left:9999px", "margin-left:99px"),
    "margin of a column": ("margin-left:-400px;width:300px", "margin-left:-4px;width:300px"),
    "padding-inline": ("padding-inline:9999px 0", "padding-inline:9px 0"),
    "mask of a border": (
        "-webkit-mask-box-image-source:url(a)",
        "-webkit-mask-box-image-source:none",
    ),
    "origin": (
        "transform:rotate(180deg);transform-origin:-9999px 0",
        "transform:rotate(180deg);transform-origin:center",
    ),
    "offset": ("offset:path('M -9999 0') 0", "offset:none"),
    "to the front": ("transform:translateZ(2px)", "transform:translateZ(0)"),
    "position-visibility": ("position-visibility:anchors-valid", "position-visibility:always"),
    "almost white": ("color:#e8e8e8", "color:#999"),
    "lines on lines": ("line-height:0", "line-height:1"),
    "words far apart": ("word-spacing:99999px", "word-spacing:9px"),
    "letters in one": ("text-combine-upright:all", "text-combine-upright:none"),
    "long value": (
        f"transform:{'rotate(0deg) ' * 90}scale(0)",
        f"transform:{'rotate(0deg) ' * 9}scale(1)",
    ),
    "void font": ("font:0/0 a;font:16px a+b", "font:0/0 a;font:16px a, b"),
    "size after the font": ("font-size:9px;font:9px a;font-size:0", "font-size:0;font:9px a"),
    "stray mark": ("display:none;display:block!x", "display:none;display:block!important"),
    "long number": (f"display:none;x:{'1' * 5000}", f"display:block;x:{'1' * 50}"),
    "block in a variable": ("display:none;--x:{} display:block", "--x:{};display:block"),
    "rule in the rule": ("display:block;&{display:none}", "display:none;&{display:block}"),
    "long block": (f"x:{'a' * 20_000};display:none", f"x:{'a' * 200};display:block"),
}
_X9 = f'<p class="x9">{MARK}</p>'
# Sheets that hide `.x9`, and much the same ones that do not.
SHEETS = {
    "dark scheme": (":root{color-scheme:dark}.x9{color:#111}", ":root{color-scheme:light}"),
    "pointer on the page": ("html:hover .x9{display:none}", ".x9:hover{display:none}"),
    "focus": (".x9:focus{opacity:0}", ".x9:focus{opacity:1}"),
    "fallback": (".y{--q:#000}.x9{color:var(--q,#fff)}", ":root{--q:#000}.x9{color:var(--q,#fff)}"),
    "void variable": (":root{--q:initial}.x9{color:var(--q,#fff)}", ":root{--q:initial}"),
    "value at first": (
        "@property --q{inherits:false;initial-value:#fff}.y{--q:#000}.x9{color:var(--q)}",
        "@property --q{inherits:false;initial-value:#000}.y{--q:#000}.x9{color:var(--q)}",
    ),
    "namespace": (
        ".x9{display:none}</style><style>@namespace url(x);p.x9{display:block}",
        ".x9{display:none}</style><style>p.x9{display:block}",
    ),
    "sheet of another type": (
        ".x9{display:none}</style><style type='text/css '>p.x9{display:block}",
        ".x9{display:none}</style><style type='text/css'>p.x9{display:block}",
    ),
    "stray semicolon": (
        ".x9{display:none};p.x9{display:block}",
        ".x9{display:none}p.x9{display:block}",
    ),
    "stray brace": (
        ".x9{display:none}}p.x9{display:block}",
        ".x9{display:none}p.x9{display:block}",
    ),
    "brace in a bracket": (
        ".x9{display:none}a{b:(}p.x9{display:block!important})}",
        ".x9{display:none}a{b:()}p.x9{display:block!important}",
    ),
    "escaped address": (
        ".a{b:u\\72l(/*)}.x9{display:none}/**/",
        ".a{b:u\\72l(/)}.x9{display:block}",
    ),
    "bracket in an address": (
        ".x9{display:none}.a{b:url(a\\)}p.x9{display:block!important}.c{d:e)}",
        ".x9{display:none}.a{b:url(a)}p.x9{display:block!important}.c{d:e}",
    ),
    "form feed ends a string": (
        ".a{content:'\f}.x9{display:none}.b{content:'}",
        ".a{content:''}.x9{display:block}.b{content:''}",
    ),
    "comment in a selector": ("p/**/.x9{display:none}", "p /**/.x9{display:none}"),
    "broken address": (
        ".a{b:url((\\\\)}.x9{display:none}.c{d:e)}",
        ".a{b:url((\\\\)}.x9{display:block}.c{d:e)}",
    ),
    "range of characters": ("u+a.x9{display:none}", "u+b.x9{display:none}"),
    "half a character": (".\\d800 {display:none}", ".\\d800 x{display:none}"),
    "list that some ignore": (
        ".x9{display:none}p.x9,a::-moz-x{display:block}",
        ".x9{display:none}p.x9,a::before{display:block}",
    ),
    "list with nothing in it": (
        ".x9{display:none}p.x9,,a{display:block}",
        ".x9{display:none}p.x9,a{display:block}",
    ),
    "nothing before a joint": (
        ".x9{display:none}>p.x9{display:block}",
        ".x9{display:none}article>p.x9{display:block}",
    ),
    "weight of a function": (
        ".x9:where(p){background:#000;color:#fff}:is(.x9){background:#fff}",
        ".x9{background:#000;color:#fff}",
    ),
    "empty variable": (
        ":root{--q:#000}.x9{--q:;color:#fff;background:var(--q)}",
        ":root{--q:#000}.x9{color:#fff;background:var(--q)}",
    ),
    "animation named by a string": (
        '@keyframes "h"{to{opacity:0}}.x9{animation:"h" 1s forwards}',
        '@keyframes "h"{to{opacity:1}}.x9{animation:"h" 1s forwards}',
    ),
    "shadow of a pseudo-element": (
        ".x9::before{content:'';box-shadow:0 200px 0 200px #fff}",
        ".x9::before{content:'';box-shadow:0 1px #fff}",
    ),
    "inside of details": (
        "details::details-content{content-visibility:hidden}",
        "details::marker{content-visibility:hidden}",
    ),
    "second line": (
        "article>div{height:20px;overflow:hidden}",
        "article>div{height:auto;overflow:hidden}",
    ),
    "inherited height": (
        "div.y{height:0}div.y>p{height:inherit;overflow:hidden}",
        "div.y{height:0}div.y>p{height:auto;overflow:hidden}",
    ),
}
SHEETS_OF = {
    "range of characters": f'<p>under <u>line</u><a class="x9">{MARK}</a></p>',
    "half a character": f'<p class="\ufffd">{MARK}</p>',
    "inside of details": f"<details open><summary>s</summary><p>{MARK}</p></details>",
    "second line": f"<div><p>one line</p><p>{MARK}</p></div>",
    "inherited height": f'<div class="y"><p>{MARK}</p></div>',
}
_NONE = "<style>.x9{display:none}</style>"
# Parts of a page that hide text, and much the same ones that do not: (head, body) twice.
MARKED_UP = {
    "dark by meta": (
        ('<meta name="color-scheme" content="dark">', f'<p style="color:#121212">{MARK}</p>'),
        ('<meta name="color-scheme" content="light">', f'<p style="color:#121212">{MARK}</p>'),
    ),
    "own style is forbidden": (
        (
            '<meta http-equiv="content-security-policy" content="x">' + _NONE,
            f'<p class="x9" style="display:block">{MARK}</p>',
        ),
        (_NONE, f'<p class="x9" style="display:block">{MARK}</p>'),
    ),
    "sheet in a formula": (
        (_NONE, f"<math><style>p.x9{{display:block}}</style></math>{_X9}"),
        (_NONE, f"<div><style>p.x9{{display:block}}</style></div>{_X9}"),
    ),
    "sheet in a template": (
        (_NONE, f"<template><style>p.x9{{display:block}}</style></template>{_X9}"),
        (_NONE, f"<div><style>p.x9{{display:block}}</style></div>{_X9}"),
    ),
    "rule over an attribute": (
        ("<style>.x9{color:#fff}</style>", f'<p><font class="x9" color="#000">{MARK}</font></p>'),
        ("<style>.x9{color:#333}</style>", f'<p><font class="x9" color="#fff">{MARK}</font></p>'),
    ),
    "attribute of another tag": (
        ("", f'<p bgcolor="#000" style="color:#fff">{MARK}</p>'),
        ("", f'<table bgcolor="#000" style="color:#fff"><tr><td>{MARK}</table>'),
    ),
    "legacy colour": (
        ("", f'<table bgcolor="#000"><tr><td><font color="rgb(255,255,255)">{MARK}</font></table>'),
        ("", f'<table bgcolor="#000"><tr><td><font color="#fff">{MARK}</font></table>'),
    ),
    "background attribute": (
        ("", f'<table background="black.png"><tr><td>{MARK}</table>'),
        ("", f'<p background="black.png">{MARK}</p>'),
    ),
    "link on blue": (
        ("", f'<p style="background:#00e"><a href="#">{MARK}</a></p>'),
        ("", f'<p style="background:#eee">words and a <a href="#">link</a>: {MARK}</p>'),
    ),
    "mark": (
        ("", f'<p><mark style="color:#ff0">{MARK}</mark></p>'),
        ("", f'<p><mark style="color:#00f">{MARK}</mark></p>'),
    ),
    "open dialog": (
        ("", f'<p>{MARK}</p><dialog open style="inset:0"></dialog>'),
        ("", f"<p>{MARK}</p><dialog></dialog>"),
    ),
    "column of a table": (
        ("", f'<table><col style="visibility:collapse"><tr><td>{MARK}</table>'),
        ("", f'<table><col style="visibility:visible"><tr><td>{MARK}</table>'),
    ),
    "second summary": (
        ("", f"<details><summary>a</summary><summary>{MARK}</summary></details>"),
        ("", f"<details open><summary>a</summary><summary>{MARK}</summary></details>"),
    ),
    "second meaning": (
        ("", f"<math><semantics><mi>x</mi><mtext>{MARK}</mtext></semantics></math>"),
        ("", f"<p>{MARK}</p><math><semantics><mi>x</mi></semantics></math>"),
    ),
    "marquee": (("", f'<marquee height="0">{MARK}</marquee>'), ("", f"<p>{MARK}</p>")),
    "border over": (
        ("", f'<p>{MARK}</p><i style="position:absolute;top:0;border-top:900px solid #fff"></i>'),
        ("", f'<p>{MARK}</p><i style="border-top:900px solid #fff"></i>'),
    ),
    "grid over": (
        ("", f'<p>{MARK}</p><div style="grid-area:1/1;background:#fff"></div>'),
        ("", f'<p>{MARK}</p><div style="background:#fff"></div>'),
    ),
    "sticky over": (
        ("", f'<p>{MARK}</p><div style="position:sticky;bottom:0;background:#fff"></div>'),
        ("", f'<p>{MARK}</p><div style="position:static;background:#fff"></div>'),
    ),
    "scaled over": (
        ("", f'<p>{MARK}</p><div style="background:#fff;transform:scale(50)"></div>'),
        ("", f'<p>{MARK}</p><div style="background:#fff;transform:none"></div>'),
    ),
    "raised over": (
        ("", f'<p>{MARK} <i style="vertical-align:-50px;background:#fff"></i></p>'),
        ("", f'<p>{MARK} <i style="vertical-align:middle;background:#fff"></i></p>'),
    ),
    "outside its paper": (
        ("", f'<div style="background:#000;color:#fff;height:20px"><p>a</p><p>{MARK}</p></div>'),
        ("", f'<div style="background:#000;color:#fff;height:auto"><p>a</p><p>{MARK}</p></div>'),
    ),
}
# Each hides its text; the second one of a pair does not.
PAIRS = {
    **{
        name: tuple((f"<style>.x9{{{block}}}</style>", _X9) for block in pair)
        for name, pair in DECLARED.items()
    },
    **{
        name: tuple((f"<style>{sheet}</style>", SHEETS_OF.get(name, _X9)) for sheet in pair)
        for name, pair in SHEETS.items()
    },
    **MARKED_UP,
}
# White text in every function of CSS that makes a colour, and dark text in the same one.
COLOUR_FUNCTIONS = {
    "rgb": ("rgb(255, 255, 255)", "rgb(40, 40, 40)"),
    "rgba": ("rgba(255, 255, 255, 1)", "rgba(40, 40, 40, .9)"),
    "hsl": ("hsl(0, 0%, 100%)", "hsl(0, 0%, 10%)"),
    "hsla": ("hsla(0, 0%, 100%, 1)", "hsla(0, 0%, 10%, .9)"),
    "hwb": ("hwb(0 100% 0%)", "hwb(0 0% 90%)"),
    "lab": ("lab(100 0 0)", "lab(10 0 0)"),
    "lch": ("lch(100 0 0)", "lch(10 0 0)"),
    "oklab": ("oklab(1 0 0)", "oklab(.2 0 0)"),
    "oklch": ("oklch(1 0 0)", "oklch(.2 0 0)"),
    "color": ("color(srgb 1 1 1)", "color(srgb .1 .1 .1)"),
}


def answer() -> KeptAnswer:
    """Return the entry of a page in a record; the readers look at its bytes alone."""
    return KeptAnswer(
        source="url",
        role="document",
        reference="https://www.example.org/a",
        url="https://www.example.org/a",
        hops=(),
        status=200,
        media_type="text/html",
        read_as="text/html",
        retrieved="2026-11-16T04:30:00Z",
        sha256="0" * 64,
        bytes=0,
        trust_anchor="system",
    )
