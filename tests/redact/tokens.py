"""Invented tokens of every family, and what only looks like one.

They are put together here when a test runs: no whole token stands in the repository,
so nobody's scanner stumbles over it.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

__all__ = ["FAMILIES", "INNOCENT", "Maker"]

Maker = Callable[[Random], str]

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
_DASHED = _ALNUM + "_-"
_BASE64 = _ALNUM + "+/"


def _of(*parts: str | tuple[str, int]) -> Maker:
    """Return a maker of texts: parts as they stand, or so many signs of some."""

    def make(random: Random) -> str:
        return "".join(
            part
            if isinstance(part, str)
            else "".join(random.choices(part[0], k=part[1]))
            for part in parts
        )

    return make


def _key(name: str) -> Maker:
    def make(random: Random) -> str:
        lines = ("".join(random.choices(_BASE64, k=64)) for _ in range(12))
        body = "\n".join(lines)
        return f"-----BEGIN {name}-----\n{body}\n-----END {name}-----"

    return make


def _end_of_key(name: str) -> Maker:
    def make(random: Random) -> str:
        return _key(name)(random).partition("-----\n")[2]

    return make


FAMILIES: dict[str, tuple[Maker, ...]] = {
    "anthropic-key": (_of("sk-ant-", "api03-", (_DASHED, 93), "AA"),),
    "openai-key": (
        _of("sk-", "proj-", (_DASHED, 74)),
        _of("sk-", (_ALNUM, 20), "T3BlbkFJ", (_ALNUM, 20)),
        _of("sk-", (_ALNUM, 48)),
    ),
    "openrouter-key": (_of("sk-or-", "v1-", (_HEX, 64)),),
    "groq-key": (_of("gsk_", (_ALNUM, 52)),),
    "huggingface-token": (_of("hf_", (_ALNUM, 34)),),
    "langsmith-key": (_of("lsv2_", "pt_", (_HEX, 32), "_", (_HEX, 10)),),
    "perplexity-key": (_of("pplx-", (_ALNUM, 48)),),
    "bygones-token": (_of("rcl_", (_DASHED, 43)),),
    "replicate-token": (_of("r8_", (_ALNUM, 37)),),
    "xai-key": (_of("xai-", (_ALNUM, 80)),),
    "github-token": (
        _of("ghp_", (_ALNUM, 36)),
        _of("gho_", (_ALNUM, 36)),
        _of("github_", "pat_", (_ALNUM, 22), "_", (_ALNUM, 59)),
    ),
    "gitlab-token": (_of("glpat-", (_DASHED, 20)),),
    "npm-token": (_of("npm_", (_ALNUM, 36)),),
    "pypi-token": (_of("pypi-", "AgEIcHlwaS5vcmc", (_DASHED, 120)),),
    "rubygems-key": (_of("rubygems_", (_HEX, 48)),),
    "docker-token": (_of("dckr_", "pat_", (_DASHED, 27)),),
    "postman-key": (_of("PMAK-", (_HEX, 24), "-", (_HEX, 34)),),
    "linear-key": (_of("lin_", "api_", (_ALNUM, 40)),),
    "notion-token": (_of("ntn_", (_ALNUM, 46)), _of("secret_", (_ALNUM, 43))),
    "figma-token": (_of("figd_", (_DASHED, 40)),),
    "atlassian-token": (_of("ATATT3", "x", (_DASHED, 180)),),
    "airtable-token": (_of("pat", (_ALNUM, 14), ".", (_HEX, 64)),),
    "sentry-token": (_of("sntrys_", (_ALNUM, 80)),),
    "aws-key-id": (_of("AKIA", (string.ascii_uppercase + "234567", 16)),),
    "aws-secret": (_of("aws_secret_", "access_key = ", (_BASE64, 40)),),
    "google-key": (_of("AIza", (_DASHED, 35)),),
    "google-token": (_of("ya29", ".", (_DASHED, 120)),),
    "google-secret": (_of("GOCSPX", "-", (_DASHED, 28)),),
    "google-refresh-token": (_of("1//0", (_DASHED, 60)),),
    "azure-account-key": (_of("Account", "Key=", (_BASE64, 86), "=="),),
    "azure-client-secret": (_of((_ALNUM, 3), "8Q~", (_ALNUM, 34)),),
    "digitalocean-token": (_of("dop_", "v1_", (_HEX, 64)),),
    "heroku-key": (_of("HRKU", "-", (_DASHED, 60)),),
    "databricks-token": (_of("dapi", (_HEX, 32)),),
    "vault-token": (_of("hvs", ".", (_DASHED, 90)),),
    "terraform-token": (_of((_ALNUM, 14), ".atlas", "v1.", (_ALNUM, 67)),),
    "pulumi-token": (_of("pul-", (_HEX, 40)),),
    "doppler-token": (_of("dp.", "pt.", (_ALNUM, 43)),),
    "fly-token": (_of("fo1_", (_DASHED, 43)),),
    "netlify-token": (_of("nfp_", (_ALNUM, 36)),),
    "vercel-token": (_of("vercel_", "blob_rw_", (_ALNUM, 16), "_", (_ALNUM, 30)),),
    "supabase-key": (_of("sbp_", (_HEX, 40)),),
    "planetscale-token": (_of("pscale_", "tkn_", (_DASHED, 43)),),
    "tailscale-key": (_of("tskey-", "auth-", (_ALNUM, 17), "-", (_ALNUM, 32)),),
    "cloudflare-key": (_of("v1.0-", (_HEX, 24), "-", (_HEX, 146)),),
    "grafana-token": (_of("glsa_", (_ALNUM, 32), "_", (_HEX, 8)),),
    "newrelic-key": (_of("NRAK", "-", (_UPPER, 27)),),
    "dynatrace-token": (_of("dt0c01", ".", (_UPPER, 24), ".", (_UPPER, 64)),),
    "stripe-key": (_of("sk_", "live_", (_ALNUM, 24)), _of("whsec_", (_ALNUM, 32))),
    "shopify-token": (_of("shpat_", (_HEX, 32)),),
    "square-token": (_of("sq0", "atp-", (_ALNUM, 22)),),
    "slack-token": (
        _of("xoxb-", ("123456789", 12), "-", ("123456789", 12), "-", (_ALNUM, 24)),
        _of("xapp-", "1-", (_UPPER, 11), "-", ("123456789", 13), "-", (_HEX, 64)),
    ),
    "slack-hook": (
        _of("hooks.slack", ".com/services/T", (_UPPER, 8), "/", (_ALNUM, 24)),
    ),
    "discord-token": (_of("M", (_ALNUM, 23), ".", (_ALNUM, 6), ".", (_ALNUM, 27)),),
    "discord-hook": (
        _of("discord", ".com/api/webhooks/", ("123456789", 18), "/", (_DASHED, 68)),
    ),
    "telegram-token": (_of(("123456789", 10), ":AA", (_ALNUM, 33)),),
    "twilio-key": (_of("SK", (_HEX, 32)),),
    "sendgrid-key": (_of("SG", ".", (_DASHED, 22), ".", (_DASHED, 43)),),
    "mailgun-key": (_of("key-", (_HEX, 32)),),
    "mailchimp-key": (_of((_HEX, 32), "-us", "12"),),
    "brevo-key": (_of("xkeysib-", (_HEX, 64), "-", (_ALNUM, 16)),),
    "private-key": (
        _key("RSA PRIVATE " + "KEY"),
        _key("OPENSSH PRIVATE " + "KEY"),
        _key("PGP PRIVATE " + "KEY BLOCK"),
        _end_of_key("PGP PRIVATE " + "KEY BLOCK"),
    ),
    "age-key": (_of("AGE-SECRET", "-KEY-1", (_UPPER, 58)),),
    "1password-token": (_of("ops_", "eyJ", (_ALNUM, 200)),),
    "jwt": (_of("eyJ", (_ALNUM, 33), ".eyJ", (_ALNUM, 90), ".", (_DASHED, 42), "x"),),
    "url-password": (
        _of("postgres://app:", (_ALNUM, 14), "@db.internal:5432/app"),
        _of("postgres://app:", (_ALNUM, 6), "@", (_ALNUM, 6), "@db.internal/app"),
        _of("amqp://me@here:", (_ALNUM, 14), "@mq.internal/"),
    ),
    "url-token": (_of("https://a.dev/x?access_", "token=", (_ALNUM, 32)),),
    "header-token": (
        _of("Authorization: Bearer ", (_ALNUM, 40)),
        _of("x-api-key: ", (_ALNUM, 32)),
        _of("Authorization: ApiKey ", (_ALNUM, 32), "7x"),
    ),
    "env-secret": (
        _of("DB_PASS", "WORD=", (_ALNUM, 16)),
        _of("export MY_API_", 'KEY="', (_ALNUM, 24), '"'),
        _of("PGPASS", "WORD=", (_ALNUM, 6), "$&%(),;*|", (_ALNUM, 6)),
        _of("MYSQL_", "PWD=", (_ALNUM, 12)),
        _of("GITHUB_", "PAT=", (_ALNUM, 12)),
    ),
    "named-secret": (
        _of("pass", "word: ", (_ALNUM, 9), "7x"),
        _of("api_", 'key = "', (_ALNUM, 16), '7x"'),
        _of("NPM_", "TOKEN = ", (_ALNUM, 16), "7x"),
        _of("--pass", "word=", (_ALNUM, 9), "7x"),
        _of("<pass", "word>", (_ALNUM, 9), "</password>"),
        _of("host=a.dev user=ada pass", "word=", (_ALNUM, 9), " dbname=shop"),
        _of('{\\"pass', 'word\\": \\"', (_ALNUM, 9), '7x\\"}'),
    ),
    "option-secret": (
        _of("curl -u ada:", (_ALNUM, 9), "7x"),
        _of("--pass", "word ", (_ALNUM, 9), "7x"),
        _of("mysql -u root -", "p", (_ALNUM, 9), " shop"),
        _of("mariadb-dump -", "p'", (_ALNUM, 9), "' shop"),
        _of("sshpass -", "p ", (_ALNUM, 9), " ssh a.dev"),
        _of("redis-cli -h a.dev -", "a ", (_ALNUM, 9), " ping"),
        _of("docker login -u me -", "p ", (_ALNUM, 9)),
        _of("docker login --username me --pass", "word=", (string.ascii_letters, 9)),
        _of("mongosh --username me --pass", "word ", (string.ascii_letters, 9)),
        _of("curl -s -u ada:", (string.ascii_letters, 9), " https://a.dev"),
    ),
    "pgpass-password": (_of("a.dev:5432:shop:ada:", (_ALNUM, 9), "7x"),),
    "cookie": (_of("Cookie: theme=dark; session=", (_ALNUM, 24), "7x; a=b"),),
    "npmrc-token": (_of("//registry.dev/:_auth", "Token=", (_ALNUM, 36)),),
    "netrc-password": (_of("machine a.dev login me password ", (_ALNUM, 12)),),
}
"""What makes tokens of each kind of secret."""

INNOCENT: dict[str, tuple[str, ...]] = {
    "anthropic-key": ("sk-ant-short", "task-ant-hill-is-a-long-name-of-something-else"),
    "openai-key": ("sk-proj-short", "disk-" + "a1b2" * 12),
    "openrouter-key": ("sk-or-v1-" + "g" * 64,),
    "groq-key": ("gsk_name_of_a_function",),
    "huggingface-token": ("hf_hub_download", "hf_" + "a1_" * 11),
    "langsmith-key": ("lsv2_pt_name",),
    "perplexity-key": ("pplx-api",),
    "bygones-token": ("rcl_short", "rcl_"),
    "replicate-token": ("r8_short",),
    "xai-key": ("xai-sdk-python",),
    "github-token": ("ghp_short", "github_pat_name", "xghp_" + "a1B2" * 9),
    "gitlab-token": ("glpat-short",),
    "npm-token": ("npm_config_registry", "npm_" + "a1_" * 12),
    "pypi-token": ("pypi-publish-action-of-somebody",),
    "rubygems-key": ("rubygems_version",),
    "docker-token": ("dckr_pat_x",),
    "postman-key": ("PMAK-1",),
    "linear-key": ("lin_api_url",),
    "notion-token": ("ntn_id", "secret_key_of_the_application_and_its_settings"),
    "figma-token": ("figd_x",),
    "atlassian-token": ("ATATT3x",),
    "airtable-token": ("patch.a1b2",),
    "sentry-token": ("sntrys_x",),
    "aws-key-id": ("AKIA" + "IOSFODNN7" + "EXAMPLE", "AKIAlowercase0000000"),
    "aws-secret": ("aws_secret_access_key = os.environ['X']",),
    "google-key": ("AIzaShort",),
    "google-token": ("ya29.x",),
    "google-secret": ("GOCSPX-x",),
    "google-refresh-token": ("1//0 is a comment",),
    "azure-account-key": ("AccountKey=<your key>",),
    "azure-client-secret": ("8Q~",),
    "digitalocean-token": ("dop_v1_x",),
    "heroku-key": ("HRKU-x",),
    "databricks-token": ("dapifunction",),
    "vault-token": ("hvs.x",),
    "terraform-token": ("atlasv1.",),
    "pulumi-token": ("pul-request",),
    "doppler-token": ("dp.pt.x",),
    "fly-token": ("fo1_x",),
    "netlify-token": ("nfp_x",),
    "vercel-token": ("vercel_blob_rw_x",),
    "supabase-key": ("sbp_x", "sb_publishable_" + "a1" * 12),
    "planetscale-token": ("pscale_tkn_x",),
    "tailscale-key": ("tskey-auth-x",),
    "cloudflare-key": ("v1.0-beta",),
    "grafana-token": ("glsa_x", "glc_context"),
    "newrelic-key": ("NRAK-x",),
    "dynatrace-token": ("dt0c01.X",),
    "stripe-key": ("sk_live_x", "pk_live_" + "a1B2" * 6),
    "shopify-token": ("shpat_x",),
    "square-token": ("sq0atp-x",),
    "slack-token": ("xoxb-x", "xoxo-love"),
    "slack-hook": ("https://hooks.slack.com/services/",),
    "discord-token": ("Module.method.call",),
    "discord-hook": ("https://discord.com/api/webhooks/",),
    "telegram-token": ("12:34:56",),
    "twilio-key": ("SKU12345",),
    "sendgrid-key": ("SG.x.y",),
    "mailgun-key": ("key-value",),
    "mailchimp-key": ("d41d8cd98f00b204e9800998ecf8427e",),
    "brevo-key": ("xkeysib-x",),
    "private-key": (
        "-----BEGIN " + "PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
        "if line == '-----BEGIN RSA PRIVATE " + "KEY-----': return parse(line)",
        "as long as it is not -----END RSA PRIVATE " + "KEY-----",
    ),
    "age-key": ("age1qqqqqqqqqq",),
    "1password-token": ("ops_team",),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9",),
    "url-password": (
        "https://a.dev:8080/x@y",
        "postgres://user:password@localhost/db",
        "http://localhost:5173/@vite/client",
    ),
    "url-token": ("https://a.dev/x?token=$TOKEN", "?page=2&sort=asc"),
    "header-token": ("Authorization: Bearer $TOKEN", "Authorization: Bearer <token>"),
    "env-secret": (
        "API_KEY=$OTHER",
        "TOKEN=your-token-here",
        "MAX_TOKENS=1000000000",
        "const token = await login();",
        "TOKEN=${OTHER}/x",
        "SECRET=$(cat file1.txt)",
        "PASSWORD=<your password>",
        "PASSWORD=************",
        "API_KEY=os.getenv('X')",
        "PWD=/srv/app/one2three",
    ),
    "named-secret": (
        "password: str",
        "password: Optional[str] = None",
        "password: correct-and-plain",
        'password = "$DB_PASSWORD1"',
        'api_key = "<your key 1>"',
        "token = Base.url_encode64(x)",
        "token: https://a.dev/login2",
        "secret: ./keys/one2.pem",
        "password = settings.password2",
        'password: "must have 8 signs"',
        "input_tokens: 12345678a",
        '"password": "xxxxxxxx1"',
        "<password>string</password>",
        "<label>password</label>",
        "user=ada and password=plainword",
    ),
    "option-secret": (
        'date -u +%Y-%m-%dT%H:%M:%S"',
        "docker run -u 1000:1000 x",
        "--password $PASSWORD1",
        "--token file.name",
        "mysql -u root -p shop",
        "mysql --port=3306 -proot shop",
        "docker run mongo -p 27017:27017",
        "docker run -p 3306:3306 mysql x",
        "sshpass -p $PASSWORD ssh a.dev",
        "docker login -u me --password-stdin",
        "curl -u user:password https://a.dev",
        "curl -u ada:$TOKEN https://a.dev",
        "curl -X PUT https://a.dev:8080/x",
    ),
    "pgpass-password": (
        "main.c:1234:12:error:line1234",
        "hostname:port:database:user:x",
    ),
    "cookie": ("Cookie: theme=dark", "Set-Cookie: a=b; Max-Age=3600", "cookie: Cookie"),
    "npmrc-token": ("_authToken=${NPM_TOKEN}",),
    "netrc-password": ("machine learning login page password field",),
}
"""What stands near a family and is no secret."""
