"""What a secret looks like: one row a family, each known by how it begins.

Rules are for decoded text and for RE2, which takes time in proportion to the text
whatever the text is. A rule with a group hides the group; one without hides the match.
"""

from __future__ import annotations

import re

from msgspec import Struct

__all__ = [
    "ASSIGNMENT_PATTERNS",
    "RULES",
    "SECRET_FIELD_NAME",
    "SPACES",
    "TOKEN_START",
    "Rule",
    "is_mixed_value",
    "is_passphrase",
    "is_password_field",
    "is_placeholder",
]

TOKEN_START = (
    r"(?:\b|_|\\[abefnrtv0]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}"
    r"|\[[0-9;]{0,10}m)"
)
"""Where a token may begin: at a word's start, or behind an escape.

Text that was written as JSON or as part of an address holds such escapes.
"""
SPACES = r"[ \t]{0,3}"


class Rule(Struct, frozen=True):
    """A family of secrets, and what betrays one."""

    name: str
    """What is put in the secret's place says this name."""
    pattern: str
    needs_mixed_value: bool = False
    """Whether a value counts only if it is mixed as no word is."""
    is_passphrase: bool = False
    """Whether a value counts only if it is words that make no sentence."""


_PRIVATE_KEY_LABEL = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_ENV_SECRET_NAME = (
    r"(?:PASSWORD|PASSWD|PASSPHRASE|_PASS|_PWD|_PAT|SECRET|SECRET_KEY|TOKEN|API_?KEY"
    r"|ACCESS_KEY|PRIVATE_KEY|AUTH_KEY|ENCRYPTION_KEY|SIGNING_KEY|CREDENTIALS?"
    r"|ACCOUNT_KEY)(?:_[A-Z0-9]+)?="
)
_PASSWORD_WORD = r"(?:password|passwd|passphrase|_pwd)"
_SECRET_WORD = (
    r"(?:secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|_pat)"
)
_ASSIGNMENT = rf"(?:\\*[\"'])?{SPACES}(?::=|=>|[:=]){SPACES}"
ASSIGNMENT_PATTERNS = {
    "env-secret": _ENV_SECRET_NAME,
    "named-secret": rf"(?i)(?:{_PASSWORD_WORD}|{_SECRET_WORD})(?:\\*[\"'])?(?:\\t|\s){{0,3}}[:=]"
    rf"|{_PASSWORD_WORD}>",
    "option-secret": r"--[a-z-]*(?:password|passwd|token|key|secret)(?:\\t|\s)"
    r"|(?:-u|--user)[ =]{0,2}\\*[\"']?[A-Za-z0-9_.@-]+:"
    r"|(?:(?:mysql|mariadb|mongo)[a-z-]*|sshpass|redis-cli|docker login) ",
    "cookie": r"(?i)cookie",
    "pgpass-password": r":(?:\d{4,5}|\*):[A-Za-z_*][A-Za-z0-9_*-]*:[A-Za-z_*]",
}
"""Signs of secrets that are known by a name before them; the value may be anything."""
SECRET_FIELD_NAME = re.compile(rf"(?i)(?:{_PASSWORD_WORD}|{_SECRET_WORD})$")
"""A name of a field that holds a secret."""
_QUOTED = (
    # No secret has a line's end in it, nor one that is written as such.
    r'"((?:[^"\\\n]|\\[^\nnrt]){8,})',
    r"'((?:[^'\\\n]|\\[^\nnrt]){8,})",
    # JSON inside of JSON, or a command inside of a text: the quotes are escaped.
    r"\\+[\"']((?:[^\"'\\\n]|\\[^\"'\\\nnrt]){8,})",
)
_WHOLE = r"((?:[^\s\"'`\\]|\\[^nrtu\"'`\s\\]){8,})"
"""A value without quotes ends where white space is, whatever signs are in it."""
_OPAQUE = r"[A-Za-z0-9_~.+/=-]"

_RULE_TABLE = (
    # Models and their surroundings
    Rule("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    Rule("openai-key", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    Rule(
        "openai-key",
        r"\bsk-(?:[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48})\b",
    ),
    Rule("openrouter-key", r"\bsk-or-v1-[0-9a-f]{64}\b"),
    Rule("groq-key", r"\bgsk_[A-Za-z0-9]{40,}\b"),
    Rule("huggingface-token", r"\b(?:hf|api_org)_[A-Za-z0-9]{34}\b"),
    Rule("langsmith-key", r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}\b"),
    Rule("perplexity-key", r"\bpplx-[A-Za-z0-9]{40,}\b"),
    Rule("replicate-token", r"\br8_[A-Za-z0-9]{37}\b"),
    Rule("xai-key", r"\bxai-[A-Za-z0-9]{70,}\b"),
    Rule("bygones-token", r"\brcl_[A-Za-z0-9_-]{43}"),
    # Code and packages
    Rule("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    Rule("github-token", r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b"),
    Rule(
        "gitlab-token",
        r"\bgl(?:pat|dt|rt|ptt|soat|ft|imt|agent|cbt|oas|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    Rule("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    Rule("pypi-token", r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    Rule("rubygems-key", r"\brubygems_[0-9a-f]{48}\b"),
    Rule("docker-token", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    Rule("postman-key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    Rule("linear-key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,64}\b"),
    Rule("notion-token", r"\b(?:ntn_[A-Za-z0-9]{40,50}|secret_[A-Za-z0-9]{43})\b"),
    Rule("figma-token", r"\bfig[du]_[A-Za-z0-9_-]{40,}"),
    Rule("atlassian-token", r"\bAT(?:ATT|CTT|BB)3?x?[A-Za-z0-9_=-]{60,}"),
    Rule("airtable-token", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    Rule("sentry-token", r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    # Clouds and machines
    Rule("aws-key-id", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    Rule(
        "aws-secret",
        r"(?i)\baws_?(?:secret|session)_?(?:access_?)?(?:key|token)[\"']?\s{0,3}"
        r"[=:]\s{0,3}[\"']?([A-Za-z0-9/+=]{40,})",
    ),
    Rule("google-key", r"\bAIza[A-Za-z0-9_-]{35}"),
    Rule("google-token", r"\bya29\.[A-Za-z0-9_-]{20,}"),
    Rule("google-secret", r"\bGOCSPX-[A-Za-z0-9_-]{28}"),
    Rule("google-refresh-token", r"\b1//0[A-Za-z0-9_-]{40,}"),
    Rule(
        "azure-account-key",
        r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})",
    ),
    Rule("azure-client-secret", r"\b[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    Rule("digitalocean-token", r"\bdo[oprt]_v1_[0-9a-f]{64}\b"),
    Rule("heroku-key", r"\bHRKU-[A-Za-z0-9_-]{36,}"),
    Rule("databricks-token", r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    Rule("vault-token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    Rule("terraform-token", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    Rule("pulumi-token", r"\bpul-[0-9a-f]{40}\b"),
    Rule("doppler-token", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    Rule("fly-token", r"\b(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=_-]{60,})"),
    Rule("netlify-token", r"\bnf[pcoub]_[A-Za-z0-9]{36,40}\b"),
    Rule("vercel-token", r"\bvercel_blob_rw_[A-Za-z0-9]{16}_[A-Za-z0-9]{20,}"),
    Rule("supabase-key", r"\b(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    Rule("planetscale-token", r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}"),
    Rule(
        "tailscale-key", r"\btskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9-]{20,}"
    ),
    Rule("cloudflare-key", r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b"),
    # Watching and selling
    Rule("grafana-token", r"\bgl(?:c|sa)_[A-Za-z0-9+/=_]{32,}"),
    Rule("newrelic-key", r"\bNR(?:AK|AL|RA|II|SP|IQ)-[A-Za-z0-9]{27,}\b"),
    Rule("dynatrace-token", r"\bdt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b"),
    Rule(
        "stripe-key",
        r"\b(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{32,})",
    ),
    Rule("shopify-token", r"\bshp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}\b"),
    Rule(
        "square-token",
        r"\b(?:sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43}|EAAA[A-Za-z0-9_-]{60})\b",
    ),
    # Messages
    Rule("slack-token", r"\bxox[abceoprs]-[A-Za-z0-9-]{10,}"),
    Rule("slack-token", r"\bxapp-\d-[A-Z0-9]{8,}-\d{6,}-[a-f0-9]{32,}\b"),
    Rule(
        "slack-hook",
        r"\bhooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/+_-]{20,})",
    ),
    Rule(
        "discord-token",
        r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}\b",
    ),
    Rule(
        "discord-hook",
        r"\bdiscord(?:app)?\.com/api/webhooks/(\d{15,20}/[A-Za-z0-9_-]{60,})",
    ),
    Rule("telegram-token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    Rule("twilio-key", r"\bSK[0-9a-f]{32}\b"),
    Rule("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    Rule("mailgun-key", r"\bkey-[0-9a-f]{32}\b"),
    Rule("mailchimp-key", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    Rule("brevo-key", r"\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}\b"),
    # Keys, and what is a secret by where it stands
    Rule(
        "private-key",
        rf"(?s)-----BEGIN {_PRIVATE_KEY_LABEL}.{{20,}}?-----END {_PRIVATE_KEY_LABEL}",
    ),
    Rule(
        "private-key",
        # Cut off before its end: lines of base64, behind numbers or a diff's signs.
        rf"-----BEGIN {_PRIVATE_KEY_LABEL}"
        r"(?:(?:\\[nr]|\s)+[^A-Za-z\n]{0,10}[A-Za-z0-9+/=]{30,})+",
    ),
    Rule(
        "private-key",
        # Told from somewhere behind its beginning, as by a program that refused it.
        r"(?:[A-Za-z0-9+/=]{30,}[^A-Za-z0-9+/=]{1,12})+"
        rf"(?:[A-Za-z0-9+/=]{{4,}}[^A-Za-z0-9+/=]{{1,12}}){{0,2}}-----END {_PRIVATE_KEY_LABEL}",
    ),
    Rule("age-key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
    Rule("1password-token", r"\bops_eyJ[A-Za-z0-9+/=_-]{60,}"),
    Rule("jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    Rule(
        "url-password",
        # An @ in a name or a password ought to be escaped, and often is not.
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s:/\"'`<>]{0,80}:"
        r"([^\s/\"'`<>]{3,200})@[A-Za-z0-9\[]",
    ),
    Rule(
        "url-token",
        r"(?i)[?&;](?:access_token|auth_token|api_?key|client_secret|refresh_token"
        r"|id_token|token|sig|signature|x-amz-signature|x-amz-security-token"
        rf"|x-goog-signature)=({_OPAQUE}{{16,}}(?:%[0-9A-F]{{2}}{_OPAQUE}*)*)",
    ),
    Rule(
        "header-token",
        r"(?i)\b(?:proxy-)?authorization(?:\\*[\"'])?\s{0,3}[:=]\s{0,3}(?:\\*[\"'])?"
        rf"(?:bearer|basic|token|bot)\s+({_OPAQUE}{{16,}})",
    ),
    Rule(
        "header-token",
        r"(?i)\b(?:proxy-)?authorization(?:\\*[\"'])?\s{0,3}[:=]\s{0,3}(?:\\*[\"'])?"
        rf"(?:[a-z][a-z0-9_-]{{1,20}}\s+)?({_OPAQUE}{{16,}})",
        needs_mixed_value=True,
    ),
    Rule(
        "header-token",
        r"(?i)(?:^|[\s\"'`{,(])(?:x-api-key|x-auth-token|api-key|private-token)[\"']?"
        rf"\s{{0,3}}:\s{{0,3}}[\"']?({_OPAQUE}{{16,}})",
    ),
    *(Rule("env-secret", f"{_ENV_SECRET_NAME}{value}") for value in (*_QUOTED, _WHOLE)),
    Rule(
        "npmrc-token",
        rf"(?i)(?:_authtoken|_auth|_password)\s{{0,3}}=\s{{0,3}}[\"']?({_OPAQUE}{{16,}})",
    ),
    Rule("netrc-password", r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S{6,})"),
    *(
        Rule(
            "named-secret",
            f"(?i)(?:{_PASSWORD_WORD}|{_SECRET_WORD}){_ASSIGNMENT}{value}",
            needs_mixed_value=True,
        )
        for value in _QUOTED
    ),
    Rule(
        "named-secret",
        f"(?i){_PASSWORD_WORD}{_ASSIGNMENT}{_WHOLE}",
        needs_mixed_value=True,
    ),
    # One word in quotes is a password even if it is plain.
    *(
        Rule(
            "named-secret",
            rf"(?i){_PASSWORD_WORD}{_ASSIGNMENT}{quote}([^\s\"'`\\]{{5,64}}){quote}",
        )
        for quote in ('"', "'", r"\\+[\"']")
    ),
    # Several are one if nobody would say them.
    *(
        Rule(
            "named-secret",
            rf"(?i){_PASSWORD_WORD}{_ASSIGNMENT}{quote}"
            rf"([^\s\"'`\\]+(?: [^\s\"'`\\]+){{2,9}}){quote}",
            is_passphrase=True,
        )
        for quote in ('"', "'", r"\\+[\"']")
    ),
    Rule(
        "named-secret", rf"(?i)<(?:[a-z]+[:_.-])?{_PASSWORD_WORD}>([^\s<>]{{3,128}})</"
    ),
    Rule(
        "named-secret",
        # What a driver of a database is given as one text.
        r"\b(?:host|hostaddr|user|dbname|port)=[^\s\"']{1,100} "
        r"(?:[a-z_]{1,30}=[^\s\"']{1,100} )*password=([^\s\"'`\\]{3,})",
    ),
    Rule(
        "pgpass-password",
        r"(?:^|[\s\"'`])[A-Za-z0-9_.*-]{1,100}:(?:\d{4,5}|\*):"
        r"[A-Za-z_*][A-Za-z0-9_*-]{0,63}:[A-Za-z_*][A-Za-z0-9_.@*-]{0,63}:"
        r"([^\s\"'`\\]{6,})",
        needs_mixed_value=True,
    ),
    Rule(
        "named-secret",
        rf"(?i){_SECRET_WORD}{_ASSIGNMENT}([A-Za-z0-9_~.+/=!@#%^*:$-]{{12,}})",
        needs_mixed_value=True,
    ),
    Rule(
        "option-secret",
        r"--(?:[a-z]+-)*(?:password|passwd|token|key|secret)[ \t]{1,3}"
        r"\\*[\"']?([^\s\"'`\\]{8,})",
        needs_mixed_value=True,
    ),
    Rule(
        "option-secret",
        r"(?:^|[\s\"'`])(?:-u|--user)[ =]{0,2}\\*[\"']?[A-Za-z0-9_.@-]{1,80}:"
        r"([^\s\"'`\\]{8,})",
        needs_mixed_value=True,
    ),
    # What a program is given may be a plain word.
    Rule(
        "option-secret",
        r"\bcurl (?:[^\n|;]{0,400} )?(?:-u|--user)[ =]{0,2}\\*[\"']?"
        r"[A-Za-z0-9_.@-]{1,80}:([^\s\"'`\\]{3,})",
    ),
    Rule(
        "option-secret",
        r"\b(?:docker login|(?:mongo|mysql|mariadb)[a-z-]{0,16}) "
        r"(?:[^\n|;&]{0,200} )?--password[= ]\\*[\"']?([^\s\"'`\\]{3,})",
    ),
    *(
        Rule(
            "option-secret",
            r"\b(?:mysql|mariadb)[a-z-]{0,16} (?:[^\n|;&]{0,200} )?"
            rf"(?:-p|--password=){quote}([^{quote}\n\\]{{3,64}}){quote}",
        )
        for quote in ('"', "'")
    ),
    # By a letter; of MySQL's only without a blank.
    Rule(
        "option-secret",
        r"\b(?:mysql|mariadb)[a-z-]{0,16} (?:[^\n|;&]{0,200} )?-p"
        r"[\"']?([^\s\"'`\\]{3,})",
    ),
    Rule(
        "option-secret",
        r"\b(?:sshpass -p|(?:redis-cli (?:[^\n|;&]{0,200} )?-a"
        r"|(?:docker login|mongo[a-z]{0,8}) (?:[^\n|;&]{0,200} )?-p) ) ?"
        r"[\"']?([^\s\"'`\\]{3,})",
    ),
    Rule(
        "cookie",
        rf"(?i)cookie(?:\\*[\"'])?{SPACES}[:=]{SPACES}\\*[\"']?"
        r"((?:[^\s=;\"'\\]+=[^\s;\"'\\]*; ?)*"
        r"[^\s=;\"'\\]+=[A-Za-z0-9_~.+/=%:-]{16,}[^\n\"'\\]*)",
        needs_mixed_value=True,
    ),
)


_GROUP = re.compile(r"(?:^|[^\\])(?:\\\\)*\((?!\?)")
"""What begins a group that is hidden alone."""


def _anchor_rule(rule: Rule) -> Rule:
    """Return a rule that also finds its token behind an escape."""
    found = re.match(r"(\(\?\w+\))?\\b", rule.pattern)
    if found is None:
        return rule
    rest = rule.pattern[found.end() :]
    told = rest if _GROUP.search(rest) else f"({rest})"
    return Rule(
        rule.name,
        f"{found[1] or ''}{TOKEN_START}{told}",
        needs_mixed_value=rule.needs_mixed_value,
    )


RULES = tuple(map(_anchor_rule, _RULE_TABLE))
"""Every rule; of two that meet in the same place, the one that begins first hides."""

_PLACEHOLDER = re.compile(
    r"(?i)example|placeholder|redacted|your[-_]|x{4,}|\*{4,}|changeme|dummy|foobar"
    r"|\d*1234567890\d*|abcdefgh[a-z]*|process\.env|os\.environ|\.\.\."
)
_BLANK = re.compile(r"\s")
_MIN_REAL_LENGTH = 16
"""Signs of what no stand-in has beside the word that makes it one."""
_FEW_X = re.compile(r"(?i)(?<!x)x{4,6}(?!x)")
_PLAIN = frozenset(
    (
        *("password", "passwd", "passphrase", "passwort", "pass", "secret", "token"),
        *("postgres", "mysql", "test", "user", "root", "admin", "guest"),
        *("true", "false", "null", "none", "undefined", "required", "optional"),
        *("string", "text", "varchar", "number", "boolean", "hidden", "input"),
    )
)
_FEWEST = 5
"""Different signs that a secret has at least."""
_SHORTEST = 8
_REFERENCE = re.compile(
    r"\$(?:\w+$|[A-Z_{(])|<|\{|\[|%\w+%|%[sd({]|#\{|[A-Za-z_][\w.:]*[(\[<]|!"
    r"|f?\\*[\"'`]|\d{2,5}:\d{2,5}$"
)
"""A variable, a place to fill in, a call, a type, two ports."""
_SIGNS = frozenset("!@#$%^&*?~+|")
_PATH_LIKE = re.compile(
    r"\w*://|[~.]{0,2}/|[A-Za-z]:\\|@/|[\w./-]+/[\w.-]+\.[a-z]{1,5}(?::\d+)?$"
)
_PASSWORD_FIELD = re.compile(r"(?i)\w*(?:password|passwd|passphrase)")
_ONE_WORD = re.compile(r"\S{5,128}")
_PASSPHRASE_WORD = re.compile(r"[^\W_]{2,16}[!?$%&*+-]?")
_MIN_PASSPHRASE_WORDS = 3
_SENTENCE_WORD_LIST = """
the an of to in on at is are was be been has have had must should may can could will
would not no and or but if for from with without by as it its this that these those
your you my our we their they he she his her who what when where which how why
field value type text name user username login key secret token string hash hashed
enter set use get new old current default change reset confirm invalid incorrect wrong
required optional least minimum maximum characters letters digits please choose
der die das den dem ein eine ist und oder nicht mit von zu im am auf
le les un une est et ou pas de du des dans pour el los las una es con por para
"""
_SENTENCE_WORDS = frozenset(_SENTENCE_WORD_LIST.split())
"""Words of sentences and labels; a phrase that is made up to be secret has none."""
_LABEL_SUFFIX = re.compile(r"(?i)[-_](?:secret|key|token|password)$")
"""How values end that were made up to show where a secret stands."""
_CODE = re.compile(r"[A-Za-z_]{1,30}(?:(?:\.|::|->)[A-Za-z_]\w{0,30})+[,;)]*$")


def is_placeholder(value: str) -> bool:
    """Whether a value only shows where a secret would stand."""
    lowered = value.lower()
    return (
        len(set(lowered)) < _FEWEST
        or lowered in _PLAIN
        or _REFERENCE.match(value) is not None
        or (
            _PLACEHOLDER.search(value) is not None
            and not _is_real_despite_placeholder(value)
        )
    )


def _is_real_despite_placeholder(value: str) -> bool:
    """Whether a value is a secret though the word of a stand-in is in it.

    What has blanks is text, such as a rule of somebody's scanner up to the next one.
    """
    if _BLANK.search(value):
        return False
    rest = re.findall(r"[A-Za-z0-9]+", _PLACEHOLDER.sub(" ", value))
    if any(
        len(one) >= _MIN_REAL_LENGTH and not one.isalpha() and not one.isdigit()
        for one in rest
    ):
        return True
    # A few x may stand in a real one by chance; what is made up has little else.
    bare = _FEW_X.sub("", value)
    return len(set(bare)) >= _MIN_REAL_LENGTH and _PLACEHOLDER.search(bare) is None


def is_password_field(name: str, value: str) -> bool:
    """Whether the value of a field is a password by the field's name alone."""
    return (
        _PASSWORD_FIELD.fullmatch(name) is not None
        and _ONE_WORD.fullmatch(value) is not None
        and not is_placeholder(value)
    )


def is_passphrase(value: str) -> bool:
    """Whether words are a secret, and not a sentence, a label or a piece of code."""
    words = value.lower().split()
    return (
        len(set(words)) >= _MIN_PASSPHRASE_WORDS
        and all(map(_PASSPHRASE_WORD.fullmatch, words))
        and _SENTENCE_WORDS.isdisjoint(words)
        and not any(map(_PASSWORD_FIELD.match, words))
    )


def is_mixed_value(value: str) -> bool:
    """Whether a value is mixed as passwords and tokens are, and words are not."""
    if _PATH_LIKE.match(value) or _CODE.match(value) or _LABEL_SUFFIX.search(value):
        return False
    longest = max(value.split(), key=len, default="").rstrip(",.;)]}")
    if len(longest) < _SHORTEST:
        return False
    has_letter = any(one.isalpha() for one in longest)
    has_digit = any(one.isdigit() for one in longest)
    return has_letter and (has_digit or not _SIGNS.isdisjoint(longest))
