//! Client certificates as in kube-apiserver: the handshake accepts any, and a request whose certificate no trusted CA
//! signed is answered 401 (`authentication/request/x509`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use substrate::Ctx;
use substrate::body::{HttpService, call};
use substrate::listen::PeerCertificate;

use crate::service::{Outside, Unverified};

/// Time for which the result of a verification is cached.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of cached certificates.
const MOST: usize = 1_000;

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
