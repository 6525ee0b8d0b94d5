//! Header `Audit-Id` of each answer (apiserver `endpoints/filters/audit_init.go`). Only listeners set it: a simulation
//! has none.

use parking_lot::Mutex;

use http::HeaderValue;
use rand_core::Rng;
use substrate::body::{HttpService, call};
use substrate::{Ctx, ids};

const HEADER: &str = "audit-id";

/// Generator of the ids of one process.
#[derive(Default)]
struct Generator(Mutex<Option<Box<dyn Rng + Send>>>);

impl Generator {
    fn next(&self, ctx: &Ctx) -> Option<HeaderValue> {
        let mut generator = self.0.lock();
        let id = ids::uuid(generator.get_or_insert_with(|| Box::new(ctx.rng("audit id"))));
        HeaderValue::from_str(&id.to_string()).ok()
    }
}

/// Wraps `service` so that each request has an id, which its answer shows. The id of a client is kept.
pub fn identify(ctx: &Ctx, service: HttpService) -> HttpService {
    let (ctx, generator) = (ctx.clone(), ctx.shared::<Generator>());
    HttpService::new(move |mut request| {
        let given = request.headers().get(HEADER).filter(|id| !id.is_empty()).cloned();
        let id = given.or_else(|| generator.next(&ctx));
        if let Some(id) = &id {
            request.headers_mut().insert(HEADER, id.clone());
        }
        let answer = call(service.clone(), request);
        Box::pin(async move {
            let mut response = answer.await?;
            if let Some(id) = id {
                response.headers_mut().entry(HEADER).or_insert(id);
            }
            Ok(response)
        })
    })
}
