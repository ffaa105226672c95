//! The proxy: executes a request by sending it to the upstream.

use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, Version, header};
use http_body::Body as _;
use onceward::{Attempt, Effect};
use onceward_http::{Execute, RequestBody};

use crate::forward;
use crate::server::{Peer, Received, Switch};
use crate::stack::Held;
use crate::tunnel;
use crate::upstream::{Care, Inbound, Outbound, SendError};

/// One request's way to the upstream and back.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) stack: Held,
    pub(crate) peer: Peer,
    pub(crate) effect: Effect,
    /// How long the head of the answer may take.
    pub(crate) within: Duration,
}

// === impl Proxy ===

impl Proxy {
    /// How long the head of an answer may take where nobody says.
    pub(crate) const WITHIN_MAX: Duration = Duration::from_secs(86_400);

    /// A request on an opaque route must not be written into a connection that may be closing:
    /// whether it arrived could not be told.
    fn care(&self, parts: &Parts) -> Care {
        let keyed = parts.extensions.get::<Attempt>().is_some();
        match self.effect {
            Effect::Opaque | Effect::Probed if keyed => Care::Fresh,
            _ => Care::Any,
        }
    }
}

impl Execute<Received> for Proxy {
    type Body = Inbound;
    type Error = SendError;

    const KEEPS_TIME: bool = true;

    async fn execute(
        self,
        request: Request<RequestBody<Received>>,
    ) -> Result<Response<Inbound>, SendError> {
        let (mut parts, body) = request.into_parts();
        let care = self.care(&parts);
        let switch: Option<Switch> = parts.extensions.remove();
        if switch.is_none() {
            // The connection cannot be handed on: HTTP/1.0 knows no other protocols.
            parts.headers.remove(header::UPGRADE);
        }
        self.stack.forwarding.request(&mut parts, self.peer);
        let request = Request::from_parts(parts, outbound(body));
        let mut response = self.stack.upstream.send(request, care, self.within).await?;
        if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(tunnel::open(response, switch));
        }
        // The upstream's version is its own business, and a replay would not repeat it.
        *response.version_mut() = Version::HTTP_11;
        forward::answer(response.headers_mut());
        Ok(response)
    }

    fn is_unsent(error: &SendError) -> bool {
        error.is_unsent()
    }
}

fn outbound(body: RequestBody<Received>) -> Outbound {
    match body.into_whole() {
        Ok(whole) => {
            let (data, trailers) = whole.into_parts();
            Outbound::Buffered { data, trailers }
        }
        Err(body) if body.is_end_stream() => Outbound::Empty,
        Err(body) => Outbound::passed(body),
    }
}
