"""Secrets of families that no rule was written for, and text without secrets.

The templates are not used to write rules: they show how well the rules generalize. Move
a family to ``rules.toml`` only together with new ones here.
"""

from __future__ import annotations

from random import Random

import pytest

from bygones.redact.engine import Redactor
from tests.redact.tokens import make_token

REDACTOR = Redactor()
MIN_RECALL = 0.8
ROUNDS = 5
FAMILIES = {
    "sql server": "Server=db;User Id=app;Password={alnum:11}7;Encrypt=true",
    "jdbc": "jdbc:mysql://db/shop?user=app&password={alnum:11}7x",
    "mongo": "mongodb+srv://app:{alnum:14}@c0.abcde.mongodb.net/shop",
    "redis": "redis://:{alnum:16}@cache:6379/0",
    "git remote": "git clone https://oauth2:{alnum:20}@git.dev/a/b.git",
    "django": "SECRET_KEY = 'django-insecure-{alnum:40}'",
    "rails": "secret_key_base: {hex:128}",
    "jwt secret": "JWT_SECRET={alnum:32}",
    "wireguard": "PrivateKey = {base64:43}=",
    "wifi": 'WIFI_PASSWORD="{alnum:12}"',
    "smtp": "SMTP_PASS={alnum:16}",
    "my.cnf": "[client]\nuser=root\npassword={alnum:11}7x",
    "kubeconfig": "    token: {alnum:40}7",
    "vault header": 'curl -H "X-Vault-Token: {alnum:26}" https://v.dev',
    "gitlab header": "curl --header 'PRIVATE-TOKEN: {alnum:20}' https://g.dev",
    "session cookie": "Cookie: sessionid={alnum:32}; csrftoken={alnum:32}",
    "azure sas": "https://a.blob.core.windows.net/c?sv=1&sig={alnum:43}%3D",
    "aws presigned": "https://b.s3.dev/x?X-Amz-Signature={hex:64}",
    "ansible": "ansible_ssh_pass: {alnum:11}7x",
    "helm": "helm upgrade x --set auth.password={alnum:11}7x",
    "client secret": '"client_secret": "{alnum:32}"',
    "firebase": '"private_key_id": "x", "api_key": "{alnum:38}7"',
    "env list": "docker run -e POSTGRES_PASSWORD={alnum:14} postgres",
    "python call": 'connect(host="db", password="{alnum:11}7x")',
    "spring": "spring.datasource.password={alnum:11}7x",
    "xml": '<add key="ApiKey" value="{alnum:32}"/>',
    "openssl": "openssl rsa -in k.pem -passin pass:{alnum:12}7",
    "ssh-keygen": 'ssh-keygen -t ed25519 -N "{alnum:12}7" -f k',
    "bearer in code": 'headers = {"Authorization": "Bearer {alnum:40}"}',
    "npmrc": "//npm.dev/:_authToken={alnum:36}",
}
CLEAN = (
    "git commit -m 'Add password reset' && git push origin main",
    "def set_password(self, password: str) -> None: self.password = hash(password)",
    "sha256:{hex:64}",
    "commit {hex:40} (HEAD -> main)",
    "uuid: {hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}",
    '"integrity": "sha512-{base64:86}=="',
    "token count: 12345, max_tokens=4096",
    'variable "region" {\n  default = "eu-central-1"\n}',
    "The seed phrase is what you write down when you create a wallet for the first time.",
    "Set the password in the settings, then restart the server and log in again.",
    "if auth == 'basic': return check(user)",
    "echo $1 $2 $HOME",
    "const key = Object.keys(map)[0]; const secret = process.env.SECRET;",
    "assert 'abc' + 'def' == 'abcdef'",
    "SELECT password FROM users WHERE name = 'ada';",
)


def test_most_secrets_of_other_families_are_redacted() -> None:
    random = Random(1)  # noqa: S311 (not used for security)
    missed = [
        name
        for name, template in FAMILIES.items()
        for _ in range(ROUNDS)
        if not REDACTOR.find(make_token(template, random))
    ]
    recall = 1 - len(missed) / (ROUNDS * len(FAMILIES))

    assert recall >= MIN_RECALL, sorted(set(missed))


@pytest.mark.parametrize("template", CLEAN)
def test_text_without_secrets_is_kept(template: str) -> None:
    text = make_token(template, Random(template))  # noqa: S311 (not used for security)

    assert REDACTOR.find(text) == ()


@pytest.mark.parametrize(
    "joint", ['" + "', '" +\n    "', "'\n    '", '" \\\n  "', '"\n  + "', "' . '", '""']
)
def test_token_that_code_joins_is_redacted(joint: str) -> None:
    random = Random(joint)  # noqa: S311 (not used for security)
    token = make_token("ghp_{alnum:36}", random)
    quote = joint[0]
    text = f"token = {quote}{token[:15]}{joint}{token[15:]}{joint[-1]}\n"

    redacted = REDACTOR.redact_text(text)

    assert token[:15] not in redacted
    assert token[15:] not in redacted
