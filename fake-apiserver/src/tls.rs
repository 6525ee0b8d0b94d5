//! Certificates of one run: its own CA, the serving certificate, the certificate of the kubeconfig's user, and those
//! from certificate signing requests.
//!
//! Created at each start and kept in memory; the kubeconfig embeds its user's credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SigningKey,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use sha2::{Digest, Sha256};

use crate::serve::lenient::Lenient;
use crate::x509::{Purposes, SigningRequest};

/// Names that clients inside and outside a cluster use for the API server.
const NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// Reason why there are no certificates.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum TlsError {
    /// the certificate cannot be made: {0}
    Certificate(#[from] rcgen::Error),
    /// the certificate cannot be served: {0}
    Server(#[from] rustls::Error),
    /// clients' certificates cannot be verified: {0}
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// A certificate and its private key, PEM.
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// The CA of one run.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Creates a CA with a new key.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new() -> Result<Self, TlsError> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        ca.distinguished_name.push(DnType::CommonName, "fake-apiserver-ca");
        Ok(Self(CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?))
    }

    /// Returns its certificate and key, PEM, for the signer of kube-controller-manager.
    pub fn credentials(&self) -> Credentials {
        Credentials { certificate: self.0.pem(), key: self.0.key().serialize_pem() }
    }

    /// Creates a client certificate for `user` in `group`.
    ///
    /// # Errors
    /// If a name is not allowed in a certificate.
    pub fn client(&self, user: &str, group: &str) -> Result<Credentials, TlsError> {
        let mut client = CertificateParams::new(Vec::new())?;
        client.distinguished_name = DistinguishedName::new();
        client.distinguished_name.push(DnType::OrganizationName, group);
        client.distinguished_name.push(DnType::CommonName, user);
        client.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        Ok(Credentials { certificate: client.signed_by(&key, &self.0)?.pem(), key: key.serialize_pem() })
    }

    /// Creates a serving certificate for `hosts`, loopback and the in-cluster names, followed by the CA's own.
    ///
    /// # Errors
    /// If one of `hosts` is not allowed in a certificate.
    pub fn server(&self, hosts: &[String]) -> Result<Credentials, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = self.serving(hosts, &key)?;
        Ok(Credentials { certificate: certificate.pem() + &self.0.pem(), key: key.serialize_pem() })
    }

    fn serving(&self, hosts: &[String], key: &KeyPair) -> Result<Certificate, TlsError> {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut names: Vec<String> = NAMES.iter().map(ToString::to_string).collect();
        names.extend(loopback.iter().map(ToString::to_string));
        names.extend(hosts.iter().cloned());
        names.sort();
        names.dedup();
        let mut serving = CertificateParams::new(names)?;
        serving.distinguished_name.push(DnType::CommonName, "fake-apiserver");
        serving.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Go and rustls use it to find the CA.
        serving.use_authority_key_identifier_extension = true;
        Ok(serving.signed_by(key, &self.0)?)
    }

    /// Creates the requested certificate, PEM.
    ///
    /// # Errors
    /// If signing fails.
    pub fn sign(
        &self,
        request: &SigningRequest,
        serial: [u8; 16],
        life: (Timestamp, Timestamp),
        purposes: Purposes,
    ) -> Result<String, TlsError> {
        let made = request.certificate(self.0.der(), serial, life, purposes, |bytes| self.0.key().sign(bytes))?;
        let text = STANDARD.encode(made);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|b| char::from(*b)));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        Ok(pem)
    }
}

/// TLS configuration of a listener and its clients.
pub struct Tls {
    /// The CA certificate, PEM.
    pub ca_pem: String,
    /// Server configuration with HTTP/2 and HTTP/1.1 by ALPN. Clients may present a certificate of the same CA.
    pub server: Arc<rustls::ServerConfig>,
}

/// Creates a CA and a serving certificate for loopback, the in-cluster names, and `hosts` (names or addresses).
///
/// # Errors
/// If one of `hosts` is not allowed in a certificate.
pub fn generate(hosts: &[String]) -> Result<Tls, TlsError> {
    serving(&Authority::new()?, hosts, &[])
}

/// Creates a serving certificate of `authority` for the same names. Clients may present a certificate of `authority` or
/// of one of `client_authorities`.
///
/// # Errors
/// If one of `hosts` is not allowed in a certificate, or a client CA is invalid.
pub fn serving(
    authority: &Authority,
    hosts: &[String],
    client_authorities: &[CertificateDer<'static>],
) -> Result<Tls, TlsError> {
    let key = KeyPair::generate()?;
    let certificate = authority.serving(hosts, &key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.0.der().clone())?;
    for client_authority in client_authorities {
        roots.add(client_authority.clone())?;
    }
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.allow_unauthenticated().build()?)
        .with_single_cert(vec![certificate.der().clone()], key)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Tls { ca_pem: authority.0.pem(), server: Arc::new(server) })
}

/// A listener with a given certificate.
pub struct Provided {
    /// Server configuration with HTTP/2 and HTTP/1.1 by ALPN. The handshake accepts any client certificate.
    pub server: Arc<rustls::ServerConfig>,
    /// The serving certificate itself.
    pub certificate: CertificateDer<'static>,
    /// Verifies client certificates; `None` if there is no client CA, and then no certificate is requested.
    pub clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// Serves `certificate` (PEM, with its chain) and its `key`. Requests client certificates of one of
/// `client_authorities` (PEM).
///
/// # Errors
/// The reason why the certificate cannot be served, in the words of Go's crypto/tls.
pub fn provided(certificate: &[u8], key: &[u8], client_authorities: Option<&str>) -> Result<Provided, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| format!("tls: failed to parse certificate: {error}"))?;
    let Some(first) = chain.first().cloned() else {
        return Err("tls: failed to find any PEM data in certificate input".to_owned());
    };
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|_| "tls: failed to find any PEM data in key input".to_owned())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = client_authorities.map(|pem| clients(pem, provider.clone())).transpose()?;
    let builder = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::new(Lenient(clients.clone()))),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "tls: private key does not match public key".to_owned(),
        other => format!("tls: {other}"),
    })?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Provided { server: Arc::new(server), certificate: first, clients })
}

/// Creates a verifier of client certificates by their CAs, PEM.
fn clients(pem: &str, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let wrong = |why: String| format!("unable to load client CA file: {why}");
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let authority = authority.map_err(|error| wrong(error.to_string()))?;
        roots.add(authority).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("data does not contain any valid RSA or ECDSA certificates".to_owned()));
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated().build();
    verifier.map_err(|error| wrong(error.to_string()))
}

/// Returns an unpredictable bearer token. It does not come from the seed, which is public; it is the digest of a new
/// private key.
///
/// # Errors
/// If the system has no randomness.
pub fn random_token() -> Result<String, TlsError> {
    let digest = Sha256::digest(KeyPair::generate()?.serialize_der());
    Ok(digest.iter().take(16).map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    #[test]
    fn tokens_differ_and_certificates_offer_http2_first() {
        assert_ne!(random_token().unwrap(), random_token().unwrap());
        let tls = generate(&["apiserver".to_owned(), "10.1.2.3".to_owned()]).unwrap();
        assert!(tls.ca_pem.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(tls.server.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }

    #[test]
    fn a_request_is_signed_and_identifies_its_client() {
        let authority = Authority::new().unwrap();
        let mut wanted = CertificateParams::new(vec!["n.example.com".to_owned()]).unwrap();
        wanted.distinguished_name = DistinguishedName::new();
        wanted.distinguished_name.push(DnType::CommonName, "ann");
        let request = wanted.serialize_request(&KeyPair::generate().unwrap()).unwrap();
        let request = SigningRequest::parse(request.der()).unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let life = (now, "2060-01-01T00:00:00Z".parse().unwrap());
        let purposes = Purposes { client: true, server: true };
        let pem = authority.sign(&request, [0xff; 16], life, purposes).unwrap();
        let made = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
        let at = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        verifier.build().unwrap().verify_client_cert(&made, &[], at).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let host = ServerName::try_from("n.example.com").unwrap();
        verifier.verify_server_cert(&made, &[], &host, &[], at).unwrap();
        let shown = authority.client("bob", "team").unwrap();
        let shown = CertificateDer::from_pem_slice(shown.certificate.as_bytes()).unwrap();
        let subject = crate::x509::certificate_subject(&shown).unwrap();
        assert_eq!((subject.common_name.as_str(), subject.organizations), ("bob", vec!["team".to_owned()]));
    }

    #[test]
    fn a_name_that_cannot_be_certified_is_an_error() {
        assert!(matches!(generate(&["bäd".to_owned()]), Err(TlsError::Certificate(_))));
    }
}
