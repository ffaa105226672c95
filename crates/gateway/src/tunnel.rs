//! Tunnels: connections on which another protocol takes over.

use http::Response;
use tokio::io::copy_bidirectional;

use crate::server::Switch;
use crate::upstream::Inbound;

/// Joins the caller's connection to the upstream's, once both have switched protocols.
///
/// The tunnel is a task of its own and ends when either side does.
pub(crate) fn open(response: Response<Inbound>, caller: Option<Switch>) -> Response<Inbound> {
    let (head, mut body) = response.into_parts();
    if let (Some(caller), Some(mut upstream)) = (caller, body.take_upgraded()) {
        tokio::spawn(async move {
            match caller.await {
                Ok(mut caller) => {
                    if let Err(error) = copy_bidirectional(&mut caller, &mut upstream).await {
                        tracing::debug!(%error, "a tunnel ended");
                    }
                }
                Err(error) => tracing::debug!(%error, "the caller did not switch"),
            }
        });
    }
    Response::from_parts(head, body)
}
