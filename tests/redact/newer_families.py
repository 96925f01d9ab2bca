"""Secrets and harmless texts from another review; see `families`.

Rules were improved while looking at what was missed of `REVIEWED` (93 % were found
before). `NEWEST` was written after that and measured: 79 % were found. Two general
rules came later: passwords in calls that connect to a database, and names of pods.
"""

from __future__ import annotations

REVIEWED = {
    "supabase secret key": "createClient(url, 'sb_secret_⟦{dashed:22}_{alnum:8}⟧')",
    "groq key in python": "client = Groq(api_key='gsk_⟦{alnum:52}⟧')",
    "perplexity bare": "pplx-⟦{alnum:48}⟧ is the one from the dashboard",
    "xai bare": "I pasted xai-⟦{alnum:80}⟧ into the settings",
    "tailscale auth key": (
        "tailscale up --authkey tskey-auth-⟦{alnum:12}CNTRL-{alnum:32}⟧"
    ),
    "fly io token": "FlyV1 fm2_⟦{base64:120}⟧==",
    "pulumi token bare": "pul-⟦{hex:40}⟧",
    "doppler service token": "doppler run --token dp.st.prod.⟦{alnum:40}⟧ -- npm start",
    "linear key": "Authorization: lin_api_⟦{alnum:40}⟧",
    "notion integration": "const notion = new Client({ auth: 'ntn_⟦{alnum:46}⟧' })",
    "planetscale token": "pscale_tkn_⟦{dashed:43}⟧",
    "neon api key": "neonctl --api-key napi_⟦{alnum:64}⟧ projects list",
    "airtable pat": "pat{alnum:14}.⟦{hex:64}⟧",
    "figma pat": "X-Figma-Token: figd_⟦{dashed:40}⟧",
    "resend key": "Resend('re_⟦{alnum:8}_{alnum:24}⟧')",
    "clerk secret": "CLERK_SECRET_KEY=sk_live_⟦{alnum:40}⟧",
    "langsmith": "LANGCHAIN_API_KEY=lsv2_pt_⟦{hex:32}_{hex:10}⟧",
    "posthog personal": "posthog = Posthog('phx_⟦{alnum:43}⟧')",
    "sourcegraph": "src login -access-token sgp_⟦{hex:16}_{hex:40}⟧",
    "rubygems": ":rubygems_api_key: rubygems_⟦{hex:48}⟧",
    "crates io": "cargo login cio⟦{alnum:32}⟧",
    "buildkite": (
        "curl -H 'Authorization: Bearer bkua_⟦{hex:40}⟧' https://api."
        "buildkite.com/v2/user"
    ),
    "jfrog reference token": "jf c add --access-token cmVmdGtuO⟦{alnum:55}⟧",
    "databricks": "databricks configure --token dapi⟦{hex:32}⟧-2",
    "confluent": (
        "sasl.jaas.config=org.apache.kafka.common.security.plain.Plai"
        'nLoginModule required username="{upper:16}" password="⟦{base'
        '64:64}⟧";'
    ),
    "hashicorp vault token": "curl -H 'X-Vault-Token: hvs.⟦{dashed:90}⟧' $VAULT/v1/x",
    "age identity": "AGE-SECRET-KEY-1⟦{upper:58}⟧",
    "wireguard private": (
        "[Interface]\nPrivateKey = ⟦{base64:43}=⟧\nAddress = 10.0.0.2/32"
    ),
    "wireguard preshared": "PresharedKey = ⟦{base64:43}=⟧",
    "german password": "Das Passwort ist ⟦{alnum:14}⟧ und gilt bis Freitag.",
    "spoken password": "the root password is: ⟦{alnum:8}!{alnum:4}⟧",
    "spanish": "contraseña: ⟦{alnum:12}⟧",
    "yaml list of env": "env:\n  - name: DB_PASSWORD\n    value: ⟦{alnum:20}⟧",
    "ecs task definition": '{"name": "SESSION_SECRET", "value": "⟦{alnum:40}⟧"}',
    "kotlin gradle": 'credentials { username = "ada"; password = "⟦{alnum:16}⟧" }',
    "maven settings": (
        "<server><id>n</id><username>ada</username><password>⟦{alnum:"
        "16}⟧</password></server>"
    ),
    "csharp connection string": (
        "Server=db;Database=a;User Id=sa;Password=⟦{alnum:14}⟧;Encrypt=True"
    ),
    "jdbc url": "jdbc:mysql://db:3306/a?user=root&password=⟦{alnum:14}⟧&useSSL=false",
    "azure storage": (
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=⟦{ba"
        "se64:86}==⟧;EndpointSuffix=core.windows.net"
    ),
    "azure sas": (
        "https://a.blob.core.windows.net/c/f?sv=2022-11-02&se=2026-01"
        "-01&sr=c&sp=r&sig=⟦{alnum:40}%2B{alnum:3}%3D⟧"
    ),
    "s3 presigned": (
        "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA25"
        "6&X-Amz-Expires=900&X-Amz-Signature=⟦{hex:64}⟧"
    ),
    "gcs presigned": (
        "https://storage.googleapis.com/b/o?X-Goog-Algorithm=GOOG4-RS"
        "A-SHA256&X-Goog-Signature=⟦{hex:512}⟧"
    ),
    "slack webhook": (
        "https://hooks.slack.com/services/T{upper:8}/B{upper:8}/⟦{alnum:24}⟧"
    ),
    "discord webhook": "https://discord.com/api/webhooks/{digits:18}/⟦{dashed:68}⟧",
    "teams webhook": (
        "https://a.webhook.office.com/webhookb2/{hex:8}-{hex:4}-{hex:"
        "4}-{hex:4}-{hex:12}@{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}"
        "/IncomingWebhook/⟦{hex:32}⟧/{hex:8}-{hex:4}-{hex:4}-{hex:4}-"
        "{hex:12}"
    ),
    "totp uri": "otpauth://totp/GitHub:ada?secret=⟦{base32:32}⟧&issuer=GitHub",
    "cookie header": "Cookie: theme=dark; sessionid=⟦{alnum:32}⟧; lang=en",
    "set-cookie": (
        "Set-Cookie: connect.sid=s%3A⟦{dashed:32}.{base64:43}⟧; Path=/; HttpOnly"
    ),
    "curl cookie": "curl -b 'auth_token=⟦{hex:40}⟧' https://a.dev/me",
    "curl -u": "curl -u ada:⟦{alnum:16}⟧ https://a.dev/api",
    "netrc": (
        "machine api.heroku.com\n  login ada@a.dev\n  password ⟦{hex:8}"
        "-{hex:4}-{hex:4}-{hex:4}-{hex:12}⟧"
    ),
    "pgpass": "db.a.dev:5432:shop:ada:⟦{alnum:16}⟧",
    "npmrc auth": (
        "//registry.npmjs.org/:_authToken=⟦{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}⟧"
    ),
    "pypirc": "[pypi]\nusername = ada\npassword = ⟦{alnum:16}⟧",
    "python requests auth": "requests.get(url, auth=('ada', '⟦{alnum:14}⟧'))",
    "go sql open": 'sql.Open("mysql", "root:⟦{alnum:14}⟧@tcp(127.0.0.1:3306)/a")',
    "create user": "CREATE USER 'ada'@'%' IDENTIFIED BY '⟦{alnum:14}⟧';",
    "redis cli": "redis-cli -h r.a.dev -a ⟦{alnum:20}⟧ ping",
    "mysqldump attached": "mysqldump -uroot -p⟦{alnum:12}⟧ shop > a.sql",
    "sshpass": "sshpass -p '⟦{alnum:12}⟧' ssh ada@a.dev",
    "ansible become": "ansible_become_pass: ⟦{alnum:14}⟧",
    "cisco": "enable secret 5 $1$⟦{alnum:4}${alnum:22}⟧",
    "snmp community": "snmpwalk -v3 -u ada -A ⟦{alnum:14}⟧ -X ⟦{alnum:14}⟧ 10.0.0.1",
    "wifi nmcli": "nmcli dev wifi connect Home password ⟦{alnum:14}⟧",
    "wpa psk": 'network={\n  ssid="Home"\n  psk="⟦{alnum:14}⟧"\n}',
    "jwt bare": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ⟦{dashed:80}.{dashed:43}⟧",
    "paseto": "v4.local.⟦{dashed:140}⟧",
    "django settings": "SECRET_KEY = 'django-insecure-⟦{alnum:40}⟧'",
    "rails master key": "RAILS_MASTER_KEY=⟦{hex:32}⟧ bin/rails c",
    "fernet": "Fernet(b'⟦{dashed:43}=⟧')",
    "aes key literal": "key = bytes.fromhex('⟦{hex:64}⟧')",
    "twilio pair": "client = Client('AC{hex:32}', '⟦{hex:32}⟧')",
    "google oauth secret": '"client_secret":"GOCSPX-⟦{dashed:28}⟧"',
    "google refresh token": "1//0g⟦{dashed:98}⟧",
    "aws session token": "aws_session_token = IQoJb3JpZ2luX2Vj⟦{base64:300}⟧",
    "github fine-grained": (
        "git clone https://oauth2:github_pat_⟦{alnum:22}_{alnum:59}⟧@github.com/a/b"
    ),
    "gitlab runner": "gitlab-runner register --token glrt-⟦{dashed:20}⟧",
    "gitlab deploy": "docker login registry.gitlab.com -u x -p gldt-⟦{dashed:20}⟧",
    "docker pat": "docker login -u ada --password dckr_pat_⟦{dashed:27}⟧",
    "k8s secret": "kind: Secret\ndata:\n  password: ⟦{base64:24}⟧\n",
    "kubeconfig": (
        "users:\n- name: a\n  user:\n    client-key-data: ⟦LS0tLS1CRUdJTi{base64:300}⟧"
    ),
    "sops age": "SOPS_AGE_KEY=AGE-SECRET-KEY-1⟦{upper:58}⟧",
    "plain key value table": "| password | ⟦{alnum:14}⟧ |",
    "html input": '<input type="password" name="pw" value="⟦{alnum:14}⟧">',
    "graphql variables": (
        '{"variables":{"input":{"email":"a@b.c","password":"⟦{alnum:14}⟧"}}}'
    ),
    "url query token": "https://a.dev/hook?token=⟦{hex:40}⟧",
    "url fragment access token": (
        "https://a.dev/cb#access_token=⟦{alnum:60}⟧&token_type=bearer"
    ),
    "oauth code exchange": (
        "grant_type=client_credentials&client_id=a&client_secret=⟦{alnum:32}⟧"
    ),
}

NEWEST = {
    "k8s helm set": (
        "helm install x ./c --set db.password=⟦{alnum:14}⟧ --set replicas=2"
    ),
    "ansible vault literal": (
        "ansible-vault encrypt_string '⟦{alnum:16}⟧' --name db_pass"
    ),
    "systemd environment": 'Environment="SMTP_PASS=⟦{alnum:14}⟧"',
    "docker run env": "docker run -e POSTGRES_PASSWORD=⟦{alnum:12}⟧ -d postgres:16",
    "docker compose env map": "environment:\n  MINIO_ROOT_PASSWORD: ⟦{alnum:16}⟧",
    "java properties": "spring.datasource.password=⟦{alnum:14}⟧",
    "java system property": (
        "java -Djavax.net.ssl.keyStorePassword=⟦{alnum:12}⟧ -jar a.jar"
    ),
    "keytool": "keytool -genkey -storepass ⟦{alnum:12}⟧ -keypass ⟦{alnum:12}⟧",
    "php pdo": "new PDO('mysql:host=db;dbname=a', 'ada', '⟦{alnum:14}⟧')",
    "php mysqli": 'mysqli_connect("localhost", "root", "⟦{alnum:12}⟧", "shop")',
    "perl dbi": "DBI->connect('dbi:Pg:dbname=a', 'ada', '⟦{alnum:14}⟧')",
    "ruby basic auth": "req.basic_auth 'ada', '⟦{alnum:14}⟧'",
    "elixir config": 'config :app, App.Repo, password: "⟦{alnum:14}⟧"',
    "rust reqwest": '.basic_auth("ada", Some("⟦{alnum:14}⟧"))',
    "swift keychain": 'let apiSecret = "⟦{alnum:32}⟧"',
    "dart env": "String.fromEnvironment('API_KEY', defaultValue: '⟦{alnum:32}⟧')",
    "azure devops pat": "https://ado:⟦{base32:52}⟧@dev.azure.com/a/_git/b",
    "bitbucket app password": (
        "git remote add o https://ada:ATBB⟦{alnum:28}⟧@bitbucket.org/a/b.git"
    ),
    "circleci": "circleci setup --token CCIPAT_⟦{alnum:22}_{hex:40}⟧",
    "snyk": "snyk auth ⟦{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}⟧",
    "codecov": "codecov -t ⟦{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}⟧",
    "algolia admin": "algoliasearch('{upper:10}', '⟦{hex:32}⟧')",
    "mapbox secret": "sk.eyJ1Ijoi⟦{alnum:60}.{dashed:22}⟧",
    "plaid": (
        "new PlaidApi({ 'PLAID-CLIENT-ID': '{hex:24}', 'PLAID-SECRET': '⟦{hex:30}⟧' })"
    ),
    "paypal": (
        "curl -u AX{alnum:78}:⟦{alnum:80}⟧ https://api.paypal.com/v1/oauth2/token"
    ),
    "braintree": "access_token$production${alnum:16}$⟦{hex:32}⟧",
    "adyen": "X-API-Key: AQE⟦{alnum:40}-{alnum:43}=-{alnum:16}⟧",
    "coinbase": "CB-ACCESS-SIGN: ⟦{hex:64}⟧",
    "telegram env": "BOT={digits:10}:⟦AA{dashed:33}⟧",
    "matrix access token": "syt_⟦{alnum:8}_{alnum:20}_{alnum:6}⟧",
    "mastodon": "mastodon --access-token ⟦{dashed:43}⟧",
    "zoom": "ZOOM_JWT_SECRET=⟦{alnum:36}⟧",
    "okta": "Authorization: SSWS 00⟦{dashed:40}⟧",
    "auth0": "AUTH0_CLIENT_SECRET='⟦{dashed:64}⟧'",
    "keycloak": '"credentials": {"secret": "⟦{alnum:32}⟧"}',
    "elastic api key": "Authorization: ApiKey ⟦{base64:60}==⟧",
    "grafana basic": "curl http://admin:⟦{alnum:12}⟧@localhost:3000/api/dashboards",
    "rabbit url": "amqps://shop:⟦{alnum:20}⟧@mq.a.dev/vh",
    "ldap ini": "bind_password = '⟦{alnum:14}⟧'",
    "samba smb conf": "smbpasswd -a ada -w ⟦{alnum:12}⟧",
    "ipmi": "ipmitool -I lanplus -H 10.0.0.9 -U root -P ⟦{alnum:12}⟧ power status",
    "mosquitto": "mosquitto_pub -h mq -u ada -P ⟦{alnum:12}⟧ -t a -m b",
    "mongosh": "mongosh -u ada -p ⟦{alnum:14}⟧ --authenticationDatabase admin",
    "ftp lftp": "lftp -u ada,⟦{alnum:12}⟧ ftp.a.dev",
    "restic env file": "RESTIC_PASSWORD2=⟦{alnum:20}⟧",
    "luks": "echo -n '⟦{alnum:18}⟧' | cryptsetup luksOpen /dev/sda2 x -",
    "login text french": "Le mot de passe est ⟦{alnum:14}⟧ pour le serveur.",
    "login text two lines": "user: ada\npass: ⟦{alnum:12}⟧",
    "recovery codes": "Recovery codes:\n⟦{hex:5}-{hex:5}⟧\n⟦{hex:5}-{hex:5}⟧",
}

NEWER_HARMLESS = (
    "commit {hex:40}\nAuthor: Ada",
    "sha256-{base64:43}= integrity",
    '"integrity": "sha512-{base64:86}=="',
    "id: {hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12}",
    "toolu_{alnum:24}",
    "msg_{alnum:24}",
    "req_{alnum:24}",
    '<img src="data:image/png;base64,iVBORw0KGgo{base64:200}">',
    "url(data:font/woff2;base64,d09GMgABAAAAA{base64:200})",
    "//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJ{base64:120}",
    (
        '!function(e,t){"object"==typeof exports&&(module.exports=t()'
        ")}(this,function(){var e={a:1,b:t}});"
    ),
    "h1:{base64:43}= go.sum",
    "aiohttp==3.9.1 --hash=sha256:{hex:64}",
    'resolved "https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#{hex:40}"',
    'checksum = "{hex:64}"',
    "docker pull a@sha256:{hex:64}",
    'ETag: "{hex:32}"',
    "x-amz-request-id: {upper:16}",
    "traceparent: 00-{hex:32}-{hex:16}-01",
    "test-{hex:8} passed in 0.3s",
    'data-testid="submit-button-{hex:6}"',
    "chunk-{upper:8}.js 12 kB",
    "/assets/index-{alnum:8}.css",
    "const passwordInput = screen.getByLabelText('Password')",
    "password: str = Field(min_length=8)",
    "if (!password) throw new Error('password required')",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "password: {{ vault_db_password }}",
    "Authorization: Bearer $TOKEN",
    "The password is stored in the keychain and never leaves it.",
    "The password is required for this command.",
    "The token is invalid or expired",
    "secret_key_base is read from credentials.yml.enc",
    "max_tokens=4096, temperature=0.2",
    "input_tokens: 123456, cache_read_input_tokens: 98765432",
    "primary_key = order_items_product_id_created_at_index",
    'key={item.id} className="flex items-center justify-between"',
    "foreign key (customer_id) references customers_archive_2024(id)",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{base64:43} ada@laptop",
    (
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0B{base64:64}\n-"
        "----END PUBLIC KEY-----"
    ),
    "pk_test_publishable key is public",
    "cookie: 'session' is set to SameSite=Lax; HttpOnly",
    "auth: { user: process.env.SMTP_USER, pass: process.env.SMTP_PASS }",
    "passwd: files systemd\ngroup: files systemd\nshadow: files",
    "root:x:0:0:root:/root:/bin/bash",
    "https://github.com/a/b/blob/{hex:40}/src/auth/token.ts#L10-L20",
    (
        "npm ERR! _resolved https://registry.npmjs.org/jsonwebtoken/-"
        "/jsonwebtoken-9.0.2.tgz"
    ),
    "arn:aws:iam::{digits:12}:role/deploy-{hex:8}",
    "projects/p/secrets/db-password/versions/3",
    "ObjectId('{hex:24}')",
    "cursor=eyJpZCI6{alnum:16}",
    "PASSWORD_MIN_LENGTH=12 PASSWORD_HASHER=argon2id",
    "kid: {alnum:43}",
    "expect(hash).toBe('{hex:64}')",
    "0x{hex:40} is the contract address",
    'snapshot `renders login form 1` = `<form class="{alnum:10}">`',
    "Password: ********",
    "password=<your-password>",
    "API_KEY=your_api_key_here",
    "token=abc123 (example)",
    "curl -u $USER:$PASS https://a.dev",
    "mysql -u root -p shop < dump.sql",
    '<div class="css-{alnum:6}" data-v-{hex:8}>',
    "const key = `user:${id}`",
    "cacheKey: 'products-{hex:8}'",
    'React key warning: Each child should have a unique "key" prop',
    "key: ValueKey('button_{hex:4}')",
    'nonce="{alnum:22}" is public in CSP? no',
    "session 01K9ZQ4M7R2T8V5W3X6Y1ABCDE started",
    "session_id={hex:32}",
    "thread: {alnum:20}",
    "token_count=18234 token_limit=200000",
    "tokens: 12,345 in, 678 out",
    "author: Key-Sung Lee",
    "keyboard: layout=de-latin1-nodeadkeys",
    "monkey1234567 is the user name",
    "passport-local@1.0.0",
    "password_resets_2024_01_01_000000.php",
    "2014_10_12_100000_create_password_reset_tokens_table.php",
    "tests/auth/test_login_v2.py::test_token_refresh_200 PASSED",
    "TokenKind::Ident2 => Token::new(TokenKind::Ident2)",
    "api/v2/auth/login/oauth2callback",
    "key-value store v1.2.3-beta4",
    "id_rsa.pub uploaded as key-2024",
    "keystore-20240101.jks created",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db-secret-7f9c",
    "secretName: tls-{hex:8}",
    "imagePullSecrets:\n- name: regcred-v2",
    "https://a.dev/reset-password?step=2",
    "use JWT (RS256) with kid {hex:16}",
    "Bearer token missing (401)",
    "signature: (a: i32, b: i64) -> u8",
    "let sig2 = sign(msg1, key1);",
    "hash_password(pw1, rounds=12)",
    "ssh -i ~/.ssh/id_ed25519_work2024 ada@10.0.0.1",
    "openssl req -newkey rsa:4096 -keyout key2.pem",
    "cookie_consent_v2=accepted1",
    "webhook-7d9f8b6c5-x2x4z 1/1 Running",
    "login took 1234ms (p95=2345ms)",
    "secret santa 2024list",
    "authors: a1, b2; reviewers: c3",
    "var e=n(123),t=n.n(e),key2=t.a",
    "sha1 key fingerprint {hex:40}",
    "public key token=b77a5c561934e089",
    "PublicKeyToken=b77a5c561934e089, Culture=neutral",
    'AssemblyKeyFile("key1.snk")',
    "passwordHash: '$2b' prefix means bcrypt",
    "gpg: using RSA key 0F3A91C47D2B8E65",
    "auth-service-{hex:9}-x2x4z CrashLoopBackOff",
)
