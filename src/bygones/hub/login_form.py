"""The form with which browsers post a token, and the cookie that they get for it."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.responses import Response

from bygones.hub.middleware import HUB_COOKIE, LOGIN_CSS_PATH, utc_now
from bygones.hub.oidc import START_PATH
from bygones.team.access import TokenStore
from bygones.web.security import error_response, is_loopback

LOGIN_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Bygones</title>"
    "<meta name=viewport content='width=device-width'>"
    f"<link rel=stylesheet href={LOGIN_CSS_PATH}>"
    "<main><h1>Bygones</h1><form method=post action=/enter><label for=token>"
    "Token from the administrator of this hub</label><input id=token name=token "
    "type=password autocomplete=off required autofocus><button>Sign in</button></form>"
)
SIGN_IN_LINK = f"<p>or <a href={START_PATH}>sign in with your organization</a></p>"
LOGIN_CSS = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 24rem; margin: 18vh auto; padding: 0 1rem }
h1 { font: 700 1.6rem/1 Georgia, serif }
label { display: block; margin-bottom: .5rem }
input, button { font: inherit; padding: .5rem .7rem; border-radius: .5rem }
input { width: 100%; box-sizing: border-box; border: 1px solid #8888 }
button { margin-top: .7rem; border: 0; background: #b4633a; color: #fff }
"""


def log_in(body: bytes, tokens: TokenStore, host: str) -> Response:
    """Respond to the login form; set the cookie if the token is valid."""
    try:
        form = parse_qs(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        form = {}
    secret = form.get("token", [""])[0].strip()
    if tokens.authenticate(secret, utc_now()) is None:
        return error_response(401, "The token is invalid, expired or revoked.")
    return set_token_cookie(secret, host)


def set_token_cookie(secret: str, host: str) -> Response:
    """Respond with the cookie of a token, and go to the first page."""
    name = host.rpartition(":")[0] or host
    secure = "" if is_loopback(name) else "; Secure"
    return Response(
        '<!doctype html><title>Bygones</title><meta http-equiv="refresh" '
        'content="0;url=/">',
        media_type="text/html",
        headers={
            "Set-Cookie": f"{HUB_COOKIE}={secret}; HttpOnly; SameSite=Strict; "
            f"Path=/; Max-Age=2592000{secure}"
        },
    )
