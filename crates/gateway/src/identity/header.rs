//! Callers named by a header that a trusted proxy sets.

use std::net::SocketAddr;

use http::HeaderMap;

use super::credential::only;
use super::{Caller, HeaderSettings, Unidentified};

/// Who sent a request with these headers over a connection from `peer`.
pub(super) fn caller(
    settings: &HeaderSettings,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<Caller, Unidentified> {
    // A listener for both families sees IPv4 callers in the clothes of IPv6.
    let ip = peer.ip().to_canonical();
    if !settings.peers.iter().any(|network| network.contains(&ip)) {
        return Err(Unidentified::Untrusted);
    }
    let value = only(headers.get_all(&settings.name).iter())?;
    let value = value.ok_or(Unidentified::Missing { scheme: None })?;
    let name = value.to_str().map_err(|_| Unidentified::Ambiguous)?.trim();
    Caller::named("header", name).ok_or(Unidentified::Ambiguous)
}
