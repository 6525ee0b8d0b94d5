//! Slow request bodies are aborted when the request times out.

use bytes::Bytes;
use futures_util::stream::unfold;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use substrate::body::{BoxError, boxed, call, collect};

use super::*;

/// Returns a body with a byte every two seconds, without end.
fn drip(client: &client::Client) -> substrate::body::Body {
    let ctx = client.ctx.clone();
    boxed(StreamBody::new(unfold(ctx, |ctx| async move {
        ctx.sleep(Duration::from_secs(2)).await;
        Some((Ok::<_, BoxError>(Frame::data(Bytes::from_static(b" "))), ctx))
    })))
}

#[test]
fn a_slow_body_is_closed_when_its_request_has_taken_its_time() {
    in_simulation(|client| async move {
        let post = "application/json";
        for (method, uri, media, limit) in [
            (Method::POST, CONFIGS.to_owned(), post, 60),
            (Method::POST, format!("{CONFIGS}?timeout=10s"), post, 10),
            // The maximum is one minute.
            (Method::PUT, format!("{CONFIGS}/a?timeout=1h"), post, 60),
            (Method::PATCH, format!("{CONFIGS}/a?timeout=0s"), "application/merge-patch+json", 60),
            (Method::PATCH, format!("{CONFIGS}/a?fieldManager=m&timeout=-5s"), "application/apply-patch+yaml", 60),
            (Method::DELETE, format!("{CONFIGS}/a?timeout=7s"), post, 7),
            (Method::DELETE, CONFIGS.to_owned(), post, 60),
            (Method::POST, format!("{PODS}/p/eviction"), post, 60),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), post, 60),
        ] {
            let begun = client.ctx.now().mono;
            let request = Request::builder().method(method.clone()).uri(&uri).header("content-type", media);
            let response = call(client.service(), request.body(drip(&client)).unwrap()).await.unwrap();
            let code = response.status().as_u16();
            let answer: Value = serde_json::from_slice(&collect(response.into_body(), 1 << 20).await.unwrap()).unwrap();
            let took = client.ctx.now().mono - begun;
            let why = "Timeout: request did not complete within the allotted timeout";
            assert_eq!(
                (code, &answer["message"], &answer["reason"]),
                (504, &json!(why), &json!("Timeout")),
                "{method} {uri}"
            );
            assert_eq!((took.as_secs(), &answer["details"]), (limit, &json!({})), "{method} {uri}");
        }
        // A slow body that is complete in time is accepted.
        let ctx = client.ctx.clone();
        let pieces: Vec<u8> = config("slow").to_string().into_bytes();
        let body = boxed(StreamBody::new(unfold((ctx, pieces.into_iter()), |(ctx, mut pieces)| async move {
            ctx.sleep(Duration::from_millis(500)).await;
            let byte = pieces.next()?;
            Some((Ok::<_, BoxError>(Frame::data(Bytes::from(vec![byte]))), (ctx, pieces)))
        })));
        let request = Request::post(CONFIGS).header("content-type", post).body(body).unwrap();
        assert_eq!(client.request(request).await.0, 201);
    });
}
