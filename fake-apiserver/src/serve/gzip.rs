//! Compression of long answers for clients that accept it (apiserver `responsewriters`: gzip at level 1 from 128 KiB
//! on).

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use substrate::body::{HttpService, call, full};

/// Minimum length of a compressed answer.
const THRESHOLD: u64 = 128 << 10;

/// Wraps `service` so that long complete answers to GET are compressed for clients that accept gzip.
pub fn compress(service: HttpService) -> HttpService {
    HttpService::new(move |request| {
        let wanted = request.method() == Method::GET && takes_gzip(request.headers());
        let answer = call(service.clone(), request);
        Box::pin(async move {
            let response = answer.await?;
            // A stream has no length; an answer with a length is complete.
            let long = response.body().size_hint().exact().is_some_and(|length| length >= THRESHOLD);
            if !wanted || !long || response.status() != StatusCode::OK {
                return Ok(response);
            }
            let (mut parts, mut body) = response.into_parts();
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            while let Some(frame) = body.frame().await {
                encoder.write_all(frame?.data_ref().map_or(&[], |data| data))?;
            }
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            Ok(Response::from_parts(parts, full(encoder.finish()?)))
        })
    })
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && quality.replace(' ', "") != "q=0"
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Read;

    use http::Request;
    use substrate::body::{Body, collect, from_service};

    use super::*;

    fn answering(length: usize) -> HttpService {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(full(vec![b'x'; length])))
        });
        compress(from_service(service))
    }

    async fn get(length: usize, accepts: &str) -> (Option<HeaderValue>, Vec<u8>) {
        let request = Request::get("/").header("accept-encoding", accepts).body(full("")).unwrap();
        let response = call(answering(length), request).await.unwrap();
        let coding = response.headers().get(header::CONTENT_ENCODING).cloned();
        (coding, collect(response.into_body(), 1 << 20).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn long_answers_are_compressed_for_those_who_take_it() {
        let (coding, bytes) = get(200_000, "deflate, gzip").await;
        assert_eq!(coding.unwrap(), "gzip");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        assert!(plain == vec![b'x'; 200_000] && bytes.len() < 2000);
        for (length, accepts) in [(1000, "gzip"), (200_000, ""), (200_000, "gzip;q=0"), (200_000, "br")] {
            let (coding, bytes) = get(length, accepts).await;
            assert_eq!((coding, bytes.len()), (None, length), "{length} {accepts}");
        }
    }
}
