"""Certificates of the test internet: one authority, and what can be wrong with a certificate."""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM
_DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates; `days` moves the time they are good for."""

    def __init__(self, title: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(title)
        builder = _certificate(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_signs_certificates(), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256())

    def issue(self, names: Iterable[str], *, days: int = 0) -> bytes:
        """Return a new key and a certificate for `names`, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(_named("origin"), self._name, key.public_key(), days=days)
        subjects = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(subjects, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        return _pair(key, builder.sign(self._key, hashes.SHA256()))


def make_certificates(directory: Path, kinds: dict[str, list[str]]) -> None:
    """Write `ca.pem`, and `KIND.pem` for the names of each kind."""
    authority = Authority("test internet")
    (directory / "ca.pem").write_bytes(authority.certificate.public_bytes(_PEM))
    makers = {
        "good": authority.issue,
        "wrong-name": lambda _: authority.issue(["elsewhere.example"]),
        "expired": lambda names: authority.issue(names, days=-30),
        "other-ca": lambda names: Authority("somebody else").issue(names),
        "self-signed": self_signed,
    }
    for kind, names in kinds.items():
        (directory / f"{kind}.pem").write_bytes(makers[kind](names))


def self_signed(names: Iterable[str]) -> bytes:
    """Return a key and a certificate that only speaks for itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("origin")
    subjects = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = _certificate(name, name, key.public_key()).add_extension(subjects, critical=False)
    return _pair(key, builder.sign(key, hashes.SHA256()))


def _pair(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    kept = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return kept + certificate.public_bytes(_PEM)


def _named(title: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int = 0
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC) + days * _DAY
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _DAY,
        not_valid_after=now + _DAY,
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
