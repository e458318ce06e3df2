"""Invented secrets and personal data in their real formats.

Values are assembled at run time, so that no line of this file looks like a secret to a scanner of
repositories.
"""

import base64
import json
import string
from dataclasses import dataclass
from random import Random
from typing import Final

from jwt.utils import base64url_encode

# The alphabets of secrets.
ALNUM: Final = string.ascii_letters + string.digits
UPPER: Final = string.ascii_uppercase + string.digits
LOWER: Final = string.ascii_lowercase + string.digits
HEX: Final = "0123456789abcdef"
BASE64: Final = ALNUM + "+/"
BASE64URL: Final = ALNUM + "-_"


@dataclass(frozen=True, slots=True)
class SecretSample:
    """A text with one secret, or with one piece of personal data.

    Attributes:
        name: The kind of the secret, and its context.
        text: The whole text.
        value: The secret, which no output may repeat.
        line: The number of the secret's line, from 1.
    """

    name: str
    text: str
    value: str
    line: int = 1


def make_random_text(alphabet: str, length: int, seed: int = 0) -> str:
    """Return random characters, which are the same in every run."""
    return "".join(Random(f"{alphabet}{length}{seed}").choices(alphabet, k=length))  # noqa: S311 - invented secrets


def make_json_web_token(seed: int = 0) -> str:
    """Return a signed JSON web token."""
    parts = [
        base64url_encode(json.dumps(part).encode()).decode()
        for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": "7431902", "scope": "admin"})
    ]
    return ".".join([*parts, make_random_text(BASE64URL, 43, seed)])


def make_pem(label: str, seed: int = 0) -> str:
    """Return random lines between a header and a footer, as in a PEM file."""
    lines = [make_random_text(BASE64, 64, seed + number) for number in range(6)]
    dashes = "-" * 5
    return "\n".join([f"{dashes}BEGIN {label}{dashes}", *lines, f"{dashes}END {label}{dashes}"])


def make_service_account_key(seed: int = 0) -> str:
    """Return a key file of a Google Cloud service account."""
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "sample-project",
            "private_key_id": make_random_text(HEX, 40, seed),
            "private_key": make_pem("PRIVATE KEY", seed) + "\n",
            "client_id": "103945720184657392018",
        },
        indent=2,
    )


def make_tokens(seed: int = 0) -> dict[str, str]:
    """Return tokens that are recognizable without their context, by kind."""
    digits = string.digits
    openai_marker = "T3Blbk" + "FJ"

    def draw(alphabet: str, length: int) -> str:
        return make_random_text(alphabet, length, seed)

    return {
        "AWS access key": "AK" + "IA" + draw("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
        "Google API key": "AI" + "za" + draw(BASE64URL, 35),
        "GitHub token": "gh" + "p_" + draw(ALNUM, 36),
        "GitHub app token": "gh" + "s_" + draw(ALNUM, 36),
        "GitHub fine-grained token": f"{'github'}_pat_{draw(ALNUM, 22)}_{draw(ALNUM, 59)}",
        "GitLab token": "gl" + "pat-" + draw(ALNUM, 20),
        "Slack bot token": f"xo{'xb'}-{draw(digits, 12)}-{draw(digits, 13)}-{draw(ALNUM, 24)}",
        "Slack user token": f"xo{'xp'}-{draw(digits, 12)}-{draw(digits, 12)}-{draw(digits, 13)}"
        f"-{draw(HEX, 32)}",
        "Slack app token": f"xa{'pp'}-1-A{draw(UPPER, 10)}-{draw(digits, 13)}-{draw(HEX, 64)}",
        "Slack webhook": f"https://hooks.{'slack'}.com/services/T{draw(UPPER, 10)}/B"
        f"{draw(UPPER, 10)}/{draw(ALNUM, 24)}",
        "Discord bot token": f"MT{draw(ALNUM, 24)}.{draw(ALNUM, 6)}.{draw(BASE64URL, 38)}",
        "Stripe live key": "sk" + "_live_" + draw(ALNUM, 24),
        "Stripe restricted key": "rk" + "_live_" + draw(ALNUM, 99),
        "Stripe webhook secret": "wh" + "sec_" + draw(ALNUM, 32),
        "OpenAI key": f"{'sk'}-{draw(ALNUM, 20)}{openai_marker}{draw(ALNUM, 20)}",
        "OpenAI project key": f"{'sk'}-proj-{draw(ALNUM, 74)}{openai_marker}{draw(ALNUM, 74)}",
        "Anthropic key": "sk" + "-ant-api03-" + draw(BASE64URL, 93) + "AA",
        "Groq key": "gs" + "k_" + draw(ALNUM, 52),
        "Hugging Face token": "hf" + "_" + draw(ALNUM, 34),
        "npm token": "np" + "m_" + draw(ALNUM, 36),
        "PyPI token": "py" + "pi-AgEIcHlwaS5vcmc" + draw(BASE64URL, 120),
        "SendGrid key": f"S{'G'}.{draw(BASE64URL, 22)}.{draw(BASE64URL, 43)}",
        "Twilio key": "S" + "K" + draw(HEX, 32),
        "Telegram bot token": draw("123456789", 10) + ":AA" + draw(BASE64URL, 33),
        "Mailchimp key": draw(HEX, 32) + "-us" + "14",
        "DigitalOcean token": "do" + "p_v1_" + draw(HEX, 64),
        "Shopify token": "shp" + "at_" + draw(HEX, 32),
        "Artifactory password": "AP" + "2" + draw(ALNUM, 30),
        "Databricks token": "da" + "pi" + draw(HEX, 32),
        "Hashicorp Vault token": "hv" + "s." + draw(BASE64URL, 92),
        "Docker Hub token": "dc" + "kr_pat_" + draw(BASE64URL, 27),
        "Google OAuth client secret": "GOC" + "SPX-" + draw(BASE64URL, 28),
        "Google OAuth access token": "ya" + "29." + draw(BASE64URL, 160),
        "JSON web token": make_json_web_token(seed),
        "Linear key": "lin" + "_api_" + draw(ALNUM, 40),
        "Notion token": "nt" + "n_" + draw(string.digits, 11) + draw(ALNUM, 35),
        "age key": "AGE-" + "SECRET-KEY-1" + draw("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    }


def make_secrets_in_context(seed: int = 0) -> list[SecretSample]:
    """Return secrets that only their context reveals."""
    aws = make_random_text(BASE64, 40, seed)
    azure = make_random_text(BASE64, 86, seed) + "=="
    password = make_random_text(ALNUM, 14, seed)
    bearer = make_random_text(BASE64URL, 44, seed)
    basic = base64.b64encode(f"deploy:{password}".encode()).decode()
    short = base64.b64encode(f"ida:{make_random_text(LOWER, 6, seed)}".encode()).decode()
    word, phrase = "hunter2" + "xyz", "Sommer!" + "2024"
    cookie = make_random_text(HEX, 32, seed)
    return [
        SecretSample(
            "AWS secret, .env", f"AWS_REGION=eu-west-1\nAWS_SECRET_ACCESS_KEY={aws}", aws, 2
        ),
        SecretSample("IBM Cloud", f"ibm_cloud_iam_key={bearer}", bearer),
        SecretSample("AWS secret, Python", f'aws_secret_access_key="{aws}"', aws),
        SecretSample("AWS secret like a path", f"AWS_SECRET={aws.replace(aws[0], '/')}", aws),
        SecretSample("Azure storage", f"AccountName=sample;AccountKey={azure};Endpoint=x", azure),
        SecretSample(
            "basic auth", f"git clone https://deploy:{password}@git.acme.io/a.git", password
        ),
        SecretSample(
            "postgres", f"DATABASE_URL=postgres://app:{password}@db.acme.io/app", password
        ),
        SecretSample("mongodb", f"mongodb+srv://app:{password}@c0.x1y2z.mongodb.net/app", password),
        SecretSample("redis, no user", f"redis://:{password}@cache.acme.io:6379/0", password),
        SecretSample("bearer", f'curl -H "Authorization: Bearer {bearer}" https://acme.io', bearer),
        SecretSample("basic header", f"Authorization: Basic {basic}", basic),
        SecretSample("curl -u", f"curl -u deploy:{password} https://acme.io/api", password),
        SecretSample("yaml", f"database:\n  user: app\n  password: {word}\n", word, 3),
        SecretSample("yaml, quoted", f"db:\n  password: '{password}'\n", password, 2),
        SecretSample("json", f'{{"user": "app",\n "password": "{password}"}}', password, 2),
        SecretSample("env, plain", f"DEBUG=1\nDB_PASSWORD={password}\n", password, 2),
        SecretSample(
            "env, exported",
            f"export API_KEY={make_random_text(HEX, 32, seed)}",
            make_random_text(HEX, 32, seed),
        ),
        SecretSample(
            "python",
            f'api_key = "{make_random_text(ALNUM, 32, seed)}"',
            make_random_text(ALNUM, 32, seed),
        ),
        SecretSample("python, keyword", f"connect(user='app', password='{password}')", password),
        SecretSample(
            "go",
            f'clientSecret := "{make_random_text(ALNUM, 40, seed)}"',
            make_random_text(ALNUM, 40, seed),
        ),
        SecretSample(
            "header",
            f"x-api-key: {make_random_text(ALNUM, 40, seed)}",
            make_random_text(ALNUM, 40, seed),
        ),
        SecretSample("command line", f"mysql -u root --password={password} app", password),
        SecretSample("netrc", f"machine acme.io login deploy password {password}", password),
        SecretSample(
            "npmrc",
            f"//registry.acme.io/:_authToken={make_random_text(HEX, 40, seed)}",
            make_random_text(HEX, 40, seed),
        ),
        SecretSample("sentence", f"The admin password is {password}, keep it.", password),
        SecretSample("psql, connection string", f'psql "host=db password={phrase}"', phrase),
        SecretSample("basic header, short", f"'Authorization': 'Basic {short}'", short),
        SecretSample("basic, alone", f'auth = "Basic {short}"', short),
        SecretSample("cookie", f"Cookie: theme=dark; sessionid={cookie}", cookie),
        SecretSample("cookie set", f"< Set-Cookie: sid={cookie}; Path=/; HttpOnly", cookie),
        SecretSample("cookie, signed", f"'cookie': 'connect.sid=s%3A{cookie}.{aws[:9]}'", cookie),
        SecretSample("cookies, Python", f"cookies={{'sessionid': '{cookie}'}}", cookie),
        SecretSample("curl -b", f"curl -s -b 'PHPSESSID={cookie}' https://acme.io", cookie),
        *_make_secrets_in_commands(f"{make_random_text(ALNUM, 12, seed)}7q"),
        SecretSample("ADO.NET", f"Server=db;User Id=sa;Password={password};Encrypt=1", password),
    ]


def _make_secrets_in_commands(password: str) -> list[SecretSample]:
    commands = {
        "mysql -p": f"mysql -u root -p{password} app",
        "mysqldump -p": f"docker exec db mysqldump -uroot -p'{password}' app > app.sql",
        "sshpass -p": f"sshpass -p {password} ssh deploy@acme",
        "sshpass, quoted": f"sshpass -p'{password}' scp a deploy@acme:",
        "docker login -p": f"docker login registry.acme.io -u deploy -p {password}",
        "redis-cli -a": f"redis-cli -h cache -a {password} ping",
        "mongosh -p": f"mongosh -u app -p {password} app",
        "sqlcmd -P": f'sqlcmd -S db -U sa -P "{password}"',
        "ldapsearch -w": f"ldapsearch -D cn=app -w {password}",
        "zip -P": f"zip -P {password} a.zip a",
        "openssl pass:": f"openssl enc -aes-256-cbc -pass pass:{password}",
        "sudo -S": f"echo {password} | sudo -S apt-get update",
        "http -a": f"http -a deploy:{password} acme.io/api",
    }
    return [SecretSample(name, text, password) for name, text in commands.items()]


def make_private_keys(seed: int = 0) -> list[SecretSample]:
    """Return private keys of several lines."""
    labels = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"]
    labels += ["ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
    body = make_random_text(BASE64, 64, seed)
    samples = [
        SecretSample(label, f"# key\n{make_pem(label, seed)}\n", body, 2) for label in labels
    ]
    return [*samples, SecretSample("service account", make_service_account_key(seed), body, 5)]


def make_secrets(seed: int = 0) -> list[SecretSample]:
    """Return all secrets; tokens are on the second line of their text."""
    tokens = [
        SecretSample(name, f"Create the client:\nclient = Client('{value}')\n", value, 2)
        for name, value in make_tokens(seed).items()
    ]
    return [*tokens, *make_secrets_in_context(seed), *make_private_keys(seed)]


def make_personal_data() -> list[SecretSample]:
    """Return personal data of invented people, in real formats."""
    mail = "ida.loaf" + "@" + "gmail.com"
    company_mail = "i.loaf" + "@" + "acme-bakery.co.uk"
    mobile = "+49 151 " + "5807 4413"
    landline = "+442083" + "661177"
    american = "(212) 736-" + "5000"
    card = "4539 1488 " + "0343 6467"
    amex = "3714" + "96353984314"
    account = "DE02 1203 0000 " + "0000 2020 51"
    social = "536-" + "22-8841"
    return [
        SecretSample("e-mail", f"Thanks to\nIda Loaf <{mail}>", mail, 2),
        SecretSample("e-mail, company", f'"author": "{company_mail}"', company_mail),
        SecretSample("phone, mobile", f"Call {mobile} when it is down.", mobile),
        SecretSample("phone, plain", f"to='{landline}'", landline),
        SecretSample("phone, American", f"Phone: {american}", american),
        SecretSample("phone, American, called", f"Call {american} at night.", american),
        SecretSample("card", f"charge('{card}')", card),
        SecretSample("American Express", f"number: {amex}", amex),
        SecretSample("IBAN", f"IBAN {account}", account),
        SecretSample(
            "IBAN, compact", f"iban='{account.replace(' ', '')}'", account.replace(" ", "")
        ),
        *_make_national_numbers(),
        SecretSample("home", f"cd /home/{'ida' + '.loaf'}/src", "ida" + ".loaf"),
        SecretSample("home, macOS", f"see /Users/{'ida' + '.loaf'}/src", "ida" + ".loaf"),
        SecretSample("home, Windows", f"C:\\Users\\{'Ida' + ' Loaf'}\\a.py", "Ida" + " Loaf"),
        SecretSample("home, quoted", f"'C:\\\\Users\\\\{'ida' + '.loaf'}\\\\a'", "ida" + ".loaf"),
        SecretSample("social security", f"ssn: {social}", social),
    ]


def _make_national_numbers() -> list[SecretSample]:
    rest = "4839" + "201"
    written = {
        "tel.": f"tel. 0171 {rest}",
        "call": f"call me at 030 / {4839} 2017",
        "phone": f"phone: 415-736-{2671}",
        "Telefon": f"| Telefon | 0171/{rest} |",
        "Telefonnummer": f"Telefonnummer: (030) {rest}7",
        "Mobil": f"Mobil: 0171-{rest}",
        "fax": f"fax=030-{rest}7",
        "WhatsApp": f"WhatsApp 0171 {rest}",
        "camel case": f"customerPhone: '0171{rest}'",
        "French": f"Téléphone : 06 83 92 01 {44}",
        "Spanish": f"teléfono 612 83 92 {14}",
        "Russian": f"телефон: 8 (912) 483-92-{17}",
        "Indian": f"mobile: 98201 {48392}",
        "00": f"Ask 0049 171 {rest}",
        "00, national zero": f"0049 (0)171 {rest}",
        "00, in one": f"tel 0049171{rest}",
    }
    return [
        SecretSample(f"phone, {name}", text, text[-6:].strip(" |?'"))
        for name, text in written.items()
    ]
