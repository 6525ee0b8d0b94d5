//! Deadlines of gRPC calls: the caller sends its timeout, and the server stops working once the caller has given up
//! (gRPC over HTTP/2, `grpc-timeout`).

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use substrate::body::{HttpService, boxed, call};
use tonic::Status;

const HEADER: &str = "grpc-timeout";
/// Largest number in the header.
const MOST: u128 = 99_999_999;

/// Wraps `service`: each call carries the timeout `limit`.
pub fn with_deadline(service: HttpService, limit: Duration) -> HttpService {
    let value = HeaderValue::from_str(&text(limit)).ok();
    HttpService::new(move |mut request| {
        if let Some(value) = &value {
            request.headers_mut().insert(HEADER, value.clone());
        }
        call(service.clone(), request)
    })
}

/// Wraps `service`: unary calls end with DEADLINE_EXCEEDED at their deadline. Their work is dropped, as a Go server's
/// context is cancelled. An unreadable header means no deadline.
pub fn keep_deadlines(service: HttpService) -> HttpService {
    HttpService::new(move |request| {
        let limit = limit(request.headers());
        let answer = call(service.clone(), request);
        let Some(limit) = limit else { return answer };
        Box::pin(async move {
            tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
                let status = Status::deadline_exceeded("context deadline exceeded");
                Ok(status.into_http::<tonic::body::Body>().map(boxed))
            })
        })
    })
}

/// Formats a duration for the header: at most eight digits and a unit.
fn text(limit: Duration) -> String {
    let units = [("n", 1), ("u", 1_000), ("m", 1_000_000), ("S", 1_000_000_000_u128)];
    let nanos = limit.as_nanos();
    let fits = units.iter().find(|(_, unit)| nanos / unit <= MOST);
    fits.map_or_else(|| format!("{MOST}S"), |(name, unit)| format!("{}{name}", nanos / unit))
}

fn limit(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    let unit = text.chars().last()?;
    let digits = text.strip_suffix(unit).filter(|d| d.len() <= 8 && d.bytes().all(|b| b.is_ascii_digit()))?;
    let number: u64 = digits.parse().ok()?;
    match unit {
        'n' => Some(Duration::from_nanos(number)),
        'u' => Some(Duration::from_micros(number)),
        'm' => Some(Duration::from_millis(number)),
        'S' => Some(Duration::from_secs(number)),
        'M' => Some(Duration::from_secs(number * 60)),
        'H' => Some(Duration::from_secs(number * 3_600)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_eight_digits_and_a_unit() {
        for (limit, header) in [
            (Duration::from_secs(15), "15000000u"),
            (Duration::from_secs(120), "120000m"),
            (Duration::from_millis(1), "1000000n"),
            (Duration::ZERO, "0n"),
            (Duration::from_secs(1_000_000_000), "99999999S"),
        ] {
            assert_eq!(text(limit), header);
        }
    }

    #[test]
    fn a_header_is_read_back_and_a_bad_one_is_no_deadline() {
        let read =
            |text: &str| limit(&HeaderMap::from_iter([(http::HeaderName::from_static(HEADER), text.parse().unwrap())]));
        for ms in [0, 1, 15_000, 120_000, 86_400_000] {
            assert_eq!(read(&text(Duration::from_millis(ms))), Some(Duration::from_millis(ms)));
        }
        assert_eq!(read("2H"), Some(Duration::from_secs(7_200)));
        for bad in ["", "S", "1", "1x", "-1S", "123456789S", "1.5S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
