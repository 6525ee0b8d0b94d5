//! Verification of a webhook's certificate by its `caBundle`, as in Go's crypto/x509
//! (<https://pkg.go.dev/crypto/x509#Certificate.Verify>).
//!
//! Go trusts a serving certificate that is in the bundle itself, even if no CA in it signed it: controller-runtime's
//! envtest and `openssl req -x509` rely on that. Its name, validity and purpose are verified anyway. Every other
//! certificate needs a chain to one in the bundle.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use substrate::body::BoxError;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The certificates of a `caBundle`, and the verifier of chains that end at one of them.
#[derive(Debug)]
pub struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl Bundle {
    /// Parses a bundle in PEM.
    ///
    /// # Errors
    /// A bundle that does not parse or is empty.
    pub fn parse(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Self, BoxError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = read.map_err(|error| format!("caBundle: {error}"))?;
        if certificates.is_empty() {
            return Err("caBundle: it has no certificate, so that no server can be trusted".into());
        }
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| format!("caBundle: {error}"))?;
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { certificates, chains })
    }
}

/// Verifies the name, validity and purpose of a certificate that is itself trusted.
fn verify_trusted(certificate: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.validity();
    let now = i64::try_from(now.as_secs()).map_err(|_| CertificateError::Expired)?;
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    match parsed.extended_key_usage() {
        Ok(Some(usage)) if !usage.value.any && !usage.value.server_auth => Err(CertificateError::InvalidPurpose.into()),
        Ok(_) => Ok(()),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.contains(certificate) {
            return verify_trusted(certificate, name, now).map(|()| ServerCertVerified::assertion());
        }
        self.chains.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

    use super::*;

    /// In January 2027.
    const NOW: u64 = 1_800_000_000;

    fn provider() -> Arc<CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    fn pem(certificate: &rcgen::Certificate) -> String {
        certificate.pem()
    }

    /// Returns a serving certificate of `localhost`, changed by `change`, and the CA that signed it.
    fn signed(change: impl FnOnce(&mut CertificateParams)) -> (rcgen::Certificate, String) {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        change(&mut leaf);
        (leaf.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap(), authority.pem())
    }

    fn verified(bundle: &str, leaf: &rcgen::Certificate, name: &str) -> Result<(), String> {
        let bundle = Bundle::parse(bundle.as_bytes(), provider()).map_err(|error| error.to_string())?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        bundle.verify_server_cert(leaf.der(), &[], &name, &[], now).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_leaf_in_the_bundle_is_trusted_as_go_trusts_it() {
        let (leaf, authority) = signed(|_| {});
        let (other, _) = signed(|_| {});
        assert_eq!(verified(&pem(&leaf), &leaf, "localhost"), Ok(()));
        assert_eq!(verified(&pem(&leaf), &leaf, "127.0.0.1"), Ok(()));
        assert_eq!(verified(&authority, &leaf, "localhost"), Ok(()));
        assert_eq!(verified(&format!("{}{authority}", pem(&other)), &leaf, "localhost"), Ok(()));
        // Another leaf certificate in the bundle does not help.
        assert!(verified(&pem(&other), &leaf, "localhost").is_err());
        assert!(verified(&pem(&leaf), &leaf, "elsewhere").unwrap_err().contains("not valid for name"));
        assert!(verified("", &leaf, "localhost").unwrap_err().starts_with("caBundle: it has no certificate"));
    }

    #[test]
    fn a_certificate_that_signs_itself_may_serve() {
        let mut own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = own.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(verified(&pem(&own), &own, "localhost"), Ok(()));
    }

    #[test]
    fn validity_and_purpose_of_a_trusted_leaf_are_verified() {
        // 2027 is the time of the verification.
        for (change, why) in [
            ((2024, 2026, None), Some("Expired")),
            ((2028, 2030, None), Some("NotValidYet")),
            ((2026, 2028, Some(ExtendedKeyUsagePurpose::ClientAuth)), Some("InvalidPurpose")),
            ((2026, 2028, Some(ExtendedKeyUsagePurpose::ServerAuth)), None),
        ] {
            let (from, to, usage) = change;
            let (leaf, authority) = signed(|leaf| {
                leaf.not_before = rcgen::date_time_ymd(from, 1, 1);
                leaf.not_after = rcgen::date_time_ymd(to, 1, 1);
                leaf.extended_key_usages = usage.into_iter().collect();
            });
            let found = verified(&pem(&leaf), &leaf, "localhost").err();
            assert_eq!(found, why.map(|why| format!("invalid peer certificate: {why}")));
            // A chain to the CA is verified in the same way.
            assert_eq!(verified(&authority, &leaf, "localhost").is_ok(), why.is_none());
        }
    }
}
