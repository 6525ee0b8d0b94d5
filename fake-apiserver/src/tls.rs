//! The certificates of one run: a CA of its own and a serving certificate that it signs.
//!
//! Made anew at each start and kept in memory; the kubeconfig embeds the CA.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::PrivateKeyDer;
use sha2::{Digest, Sha256};

/// Names that clients inside and outside of a cluster use for the API server.
const NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// Why there are no certificates.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum TlsError {
    /// the certificate cannot be made: {0}
    Certificate(#[from] rcgen::Error),
    /// the certificate cannot be served: {0}
    Server(#[from] rustls::Error),
}

/// What a TLS listener and its clients need.
pub struct Tls {
    /// The CA certificate, PEM.
    pub ca_pem: String,
    /// Serves the certificate; HTTP/2 and HTTP/1.1 by ALPN.
    pub server: Arc<rustls::ServerConfig>,
}

/// Makes a CA and a serving certificate for loopback, the in-cluster names, and `hosts` (names or addresses).
///
/// # Errors
/// When one of `hosts` cannot stand in a certificate.
pub fn generate(hosts: &[String]) -> Result<Tls, TlsError> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    ca.distinguished_name.push(DnType::CommonName, "fake-apiserver-ca");
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);

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
    // Go and rustls want it to find the CA.
    serving.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = serving.signed_by(&key, &issuer)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Tls { ca_pem, server: Arc::new(server) })
}

/// A bearer token that nobody can guess. It does not come from the seed, since whoever knows the seed would know it:
/// it is the digest of a fresh private key.
///
/// # Errors
/// When the system has no randomness.
pub fn random_token() -> Result<String, TlsError> {
    let digest = Sha256::digest(KeyPair::generate()?.serialize_der());
    Ok(digest.iter().take(16).map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_certificates_offer_http2_first() {
        assert_ne!(random_token().unwrap(), random_token().unwrap());
        let tls = generate(&["apiserver".to_owned(), "10.1.2.3".to_owned()]).unwrap();
        assert!(tls.ca_pem.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(tls.server.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }

    #[test]
    fn a_name_that_cannot_be_certified_is_an_error() {
        assert!(matches!(generate(&["bäd".to_owned()]), Err(TlsError::Certificate(_))));
    }
}
