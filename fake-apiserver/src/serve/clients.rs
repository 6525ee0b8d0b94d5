//! Client certificates as in kube-apiserver: the handshake accepts any, and a request whose certificate no trusted CA
//! signed is answered 401 (`authentication/request/x509`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use substrate::Ctx;
use substrate::body::{HttpService, call};
use substrate::listen::PeerCertificate;

use crate::service::{Outside, Unverified};

/// Time for which the result of a verification is cached.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of cached certificates.
const MOST: usize = 1_000;

/// Accepts every client certificate in the handshake, if the client holds its key.
#[derive(Debug)]
pub struct Lenient(pub Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Results by certificate, each with its time.
type Known = Mutex<BTreeMap<Arc<[u8]>, (Duration, bool)>>;

/// Wraps `service` so that its requests are marked as [`Outside`], and those with a certificate that `verifier` refuses as
/// [`Unverified`].
pub fn verify(ctx: &Ctx, service: HttpService, verifier: Option<Arc<dyn ClientCertVerifier>>) -> HttpService {
    let (ctx, known) = (ctx.clone(), Arc::new(Known::default()));
    HttpService::new(move |mut request| {
        let extensions = request.extensions_mut();
        extensions.insert(Outside);
        if let Some(shown) = extensions.get::<PeerCertificate>()
            && !verifier.as_ref().is_some_and(|verifier| is_valid(&ctx, &**verifier, &known, shown))
        {
            extensions.remove::<PeerCertificate>();
            extensions.insert(Unverified);
        }
        call(service.clone(), request)
    })
}

fn is_valid(ctx: &Ctx, verifier: &dyn ClientCertVerifier, known: &Known, shown: &PeerCertificate) -> bool {
    let now = ctx.now();
    let lock = || known.lock();
    if let Some((at, valid)) = lock().get(&shown.0)
        && now.mono < *at + FRESH
    {
        return *valid;
    }
    let seconds = u64::try_from(now.wall.as_second()).unwrap_or(0);
    let others: Vec<CertificateDer<'_>> = shown.1.iter().map(|other| CertificateDer::from(other.as_slice())).collect();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let valid = verifier.verify_client_cert(&CertificateDer::from(&*shown.0), &others, at).is_ok();
    let mut known = lock();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(shown.0.clone(), (now.mono, valid));
    valid
}
