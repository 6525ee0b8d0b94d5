//! The user's program that makes a call, as its endpoint to the driver names it.

use substrate::body::{HttpService, call};
use substrate::link::PROGRAM;

tokio::task_local! {
    /// Name of the program whose request is handled; empty for other callers.
    static CALLER: String;
}

/// Wraps `service` so that it knows the calling program while it handles a request.
pub(crate) fn with_caller(service: HttpService) -> HttpService {
    HttpService::new(move |request| {
        let named = request.headers().get(PROGRAM).and_then(|name| name.to_str().ok()).map(str::to_owned);
        let answer = call(service.clone(), request);
        match named {
            Some(name) => Box::pin(CALLER.scope(name, answer)),
            None => answer,
        }
    })
}

/// Returns the program whose call is being handled; empty for any other caller.
pub(crate) fn caller() -> String {
    CALLER.try_with(Clone::clone).unwrap_or_default()
}
