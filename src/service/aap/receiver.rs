//! One message to one receiver, signed as Standard Webhooks says.
//!
//! The address is looked up and checked for every connection, and the connection goes to the checked
//! address alone. Redirects are not followed, and no proxy stands between. Nothing here logs an
//! address, a body or a secret.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use url::{Host, Url};

use super::address::is_public;

/// The longest that an attempt takes, from the look-up to the answer.
pub(super) const ATTEMPT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 16 * 1024;
/// Bytes of a receiver's address.
const MAX_URL: usize = 2_048;

/// A message on its way.
pub(super) struct Message<'a> {
    pub(super) url: &'a str,
    pub(super) secret: &'a SecretString,
    pub(super) id: &'a str,
    /// Seconds since 1970, of this attempt.
    pub(super) timestamp: i64,
    pub(super) body: String,
}

/// What a receiver answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// How long it asks to be left alone.
    pub(super) retry_after: Option<Duration>,
    /// The answer's beginning.
    pub(super) body: Vec<u8>,
}

/// Why there is no answer; never with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsent {
    /// Its address is malformed.
    #[error("the receiver's address is malformed")]
    Malformed,
    /// Its name has no address.
    #[error("the receiver's name has no address")]
    Unknown,
    /// One of its addresses is not public.
    #[error("the receiver's address is not public")]
    NotPublic,
    /// Its secret is malformed.
    #[error("the receiver's secret is malformed")]
    Secret,
    /// No connection, or it broke.
    #[error("the receiver cannot be reached")]
    Unreachable,
    /// It took too long.
    #[error("the receiver did not answer in time")]
    Late,
}

/// Whether an address has the form that the protocol asks for: `https`, no user, no fragment. With
/// `loopback`, plain `http` to this machine has it too.
pub(super) fn is_receiver(text: &str, loopback: bool) -> bool {
    let rest = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => rest,
        (None, Some(rest)) if loopback => rest,
        (None, _) => return false,
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = rest.get(..end).unwrap_or_default();
    let plain = !rest.chars().any(|one| one == '#' || one.is_whitespace() || one.is_control());
    if authority.is_empty() || authority.contains('@') || !plain || text.len() > MAX_URL {
        return false;
    }
    let Ok(url) = Url::parse(text) else { return false };
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || here
}

/// The host of a receiver's address, as all of its spellings have it.
pub(super) fn host(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host).to_owned()
}

/// `v1,` and the base64 of the HMAC-SHA-256 of `id.timestamp.body`; `None` for a secret that is not
/// `whsec_` and 32 bytes in base64.
#[must_use]
pub fn sign(secret: &SecretString, id: &str, timestamp: i64, body: &str) -> Option<String> {
    let key = STANDARD.decode(secret.expose_secret().strip_prefix("whsec_")?).ok()?;
    if key.len() != 32 {
        return None;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{timestamp}.{body}").as_bytes());
    Some(format!("v1,{}", STANDARD.encode(tag)))
}

/// Sends a message, once; `limit` is for all of it.
pub(super) async fn send(
    message: Message<'_>,
    loopback: bool,
    limit: Duration,
) -> Result<Answer, Unsent> {
    let limit = limit.min(ATTEMPT);
    timeout(limit, attempt(message, loopback)).await.unwrap_or(Err(Unsent::Late))
}

async fn attempt(message: Message<'_>, loopback: bool) -> Result<Answer, Unsent> {
    let Message { url, secret, id, timestamp, body } = message;
    if !is_receiver(url, loopback) {
        return Err(Unsent::Malformed);
    }
    let url = Url::parse(url).map_err(|_| Unsent::Malformed)?;
    let signature = sign(secret, id, timestamp, &body).ok_or(Unsent::Secret)?;
    let addresses = resolve(&url).await?;
    let may = |address: &SocketAddr| {
        is_public(address.ip()) || (loopback && canonical(address.ip()).is_loopback())
    };
    // All of them: which one would be used is not ours to know.
    if !addresses.iter().all(may) {
        return Err(Unsent::NotPublic);
    }
    let host = url.host_str().unwrap_or_default().to_owned();
    // An error means that the process has a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .https_only(!loopback)
        .resolve_to_addrs(&host, &addresses)
        .user_agent("approver")
        .build()
        .map_err(|_| Unsent::Unreachable)?;
    let mut answer = client
        .post(url)
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature)
        .body(body)
        .send()
        .await
        .map_err(|_| Unsent::Unreachable)?;
    let status = answer.status().as_u16();
    let retry_after = answer
        .headers()
        .get(reqwest::header::RETRY_AFTER)
        .and_then(|value| retry_after(value.to_str().ok()?));
    let mut read = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|_| Unsent::Unreachable)? {
        read.extend_from_slice(&chunk);
        if read.len() > MAX_ANSWER {
            break;
        }
    }
    Ok(Answer { status, retry_after, body: read })
}

async fn resolve(url: &Url) -> Result<Vec<SocketAddr>, Unsent> {
    let port = url.port_or_known_default().ok_or(Unsent::Malformed)?;
    let found: Vec<SocketAddr> = match url.host().ok_or(Unsent::Malformed)? {
        Host::Ipv4(address) => vec![(address, port).into()],
        Host::Ipv6(address) => vec![(address, port).into()],
        Host::Domain(name) => {
            let found = tokio::net::lookup_host((name, port)).await;
            found.map_err(|_| Unsent::Unknown)?.collect()
        }
    };
    if found.is_empty() { Err(Unsent::Unknown) } else { Ok(found) }
}

fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Seconds, or a date.
fn retry_after(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protocol's own vector.
    #[test]
    fn a_signature_is_the_published_one() {
        let secret = SecretString::from("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let id = "f4b96ac4-404d-4f6a-9a03-a0565edc4922";
        let body = format!(
            "{{\n  \"id\": \"{id}\",\n  \"type\": \"request.resolved\",\n  \
             \"instance_id\": \"b29a43a7-1949-4b9f-9d61-b7ae66f85d31\",\n  \
             \"request_id\": \"7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71\",\n  \
             \"created_at\": \"2026-09-16T12:02:00Z\"\n}}"
        );
        let expected = "v1,zgT2qt+QiEEonu9tmZqEuKzoa83SGE9ZcCgUHzqSPZ8=";
        assert_eq!(sign(&secret, id, 1_789_560_121, &body).as_deref(), Some(expected));
        for secret in ["AAEC", "whsec_AAEC", "whsec_!", ""] {
            assert_eq!(sign(&secret.into(), id, 0, ""), None, "{secret}");
        }
    }

    #[test]
    fn receivers_have_an_https_address_without_user_and_fragment() {
        for (text, public, test_only) in [
            ("https://a.example", true, true),
            ("https://a.example/x?y=z", true, true),
            ("https://a.example:8443?y", true, true),
            ("https://[2606:4700::1]/", true, true),
            ("http://a.example", false, false),
            ("http://127.0.0.1:8080/x", false, true),
            ("http://localhost:1/", false, true),
            ("http://[::1]:1/", false, true),
            ("http://127.0.0.1.a.example/", false, false),
            ("HTTPS://a.example", false, false),
            ("https://", false, false),
            ("https:///x", false, false),
            ("https://u@a.example", false, false),
            ("https://a.example/#x", false, false),
            ("https://a.example/ x", false, false),
            ("https://a.example/\n", false, false),
            ("https://a.example:99999/", false, false),
            ("ftp://a.example", false, false),
            ("a.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_receiver(text, false), public, "{text:?}");
            assert_eq!(is_receiver(text, true), test_only, "{text:?}");
        }
    }

    #[test]
    fn a_host_has_one_name() {
        for url in [
            "https://a.example/x",
            "https://A.Example:8443?y",
            "https://a.example./",
            "https://a.example:443/",
        ] {
            assert_eq!(host(url), "a.example", "{url}");
        }
        assert_eq!(host("https://[2606:4700:0::1]/"), "[2606:4700::1]");
        assert_eq!(host("https://0x7f.1/"), "127.0.0.1");
    }

    #[tokio::test]
    async fn nothing_is_sent_to_what_is_not_public() {
        let secret = SecretString::from("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        for url in [
            "https://127.0.0.1:9/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://[::1]/",
            "https://[::ffff:169.254.169.254]/",
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/",
            "https://localhost/",
        ] {
            let body = String::new();
            let message = Message { url, secret: &secret, id: "i", timestamp: 0, body };
            let sent = send(message, false, ATTEMPT).await;
            assert_eq!(sent.err(), Some(Unsent::NotPublic), "{url}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_time() {
        assert_eq!(retry_after("120"), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
    }
}
