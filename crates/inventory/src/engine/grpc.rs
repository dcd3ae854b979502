//! gRPC over a Unix socket. The few messages that are needed are written down beside the calls, because generating
//! them would need a compiler that is no Rust crate.

use super::{MAX_BYTES, fix};
use crate::source::Failure;
use hyper::http::uri::PathAndQuery;
use prost::Message;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::client::Grpc;

use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Time for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A socket that is connected when it is first used, and again after a failure.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    channel: Option<Channel>,
}

impl Socket {
    pub(super) fn new(path: PathBuf) -> Self {
        Socket { path, channel: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    async fn client(&mut self) -> Result<Grpc<Channel>, Status> {
        if self.channel.is_none() {
            let away = |error: tonic::transport::Error| {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                Status::unavailable(cause.unwrap_or_else(|| error.to_string()))
            };
            let address = format!("unix://{}", self.path.display());
            let endpoint = Endpoint::from_shared(address).map_err(away)?;
            let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
            self.channel = Some(endpoint.connect().await.map_err(away)?);
        }
        let channel = self.channel.clone().ok_or_else(|| Status::unavailable("not connected"))?;
        let mut client = Grpc::new(channel).max_decoding_message_size(MAX_BYTES);
        let ready = client.ready().await.map_err(|error| Status::unavailable(error.to_string()));
        if ready.is_err() {
            self.channel = None;
        }
        ready.map(|()| client)
    }

    /// One question, one answer; `namespace` is containerd's, not Kubernetes'.
    pub(super) async fn call<Q, A>(
        &mut self,
        method: &'static str,
        namespace: &str,
        question: Q,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = in_namespace(question, namespace)?;
        let mut client = self.client().await?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answer = client.unary(request, PathAndQuery::from_static(method), codec).await;
        if answer.as_ref().is_err_and(|status| status.code() == Code::Unavailable) {
            self.channel = None;
        }
        answer.map(tonic::Response::into_inner)
    }

    /// One question, any number of answers: the future begins to ask when it is awaited.
    pub(super) async fn stream<Q, A>(
        &mut self,
        method: &'static str,
        question: Q,
    ) -> Result<impl Future<Output = Result<Streaming<A>, Status>> + Send + use<Q, A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut client = self.client().await?;
        Ok(async move {
            let codec: ProstCodec<Q, A> = ProstCodec::default();
            let method = PathAndQuery::from_static(method);
            let answer = client.server_streaming(Request::new(question), method, codec).await;
            answer.map(tonic::Response::into_inner)
        })
    }

    pub(super) fn failure(&self, status: &Status) -> Failure {
        let found = format!("{}: {}", self.path.display(), status.message());
        Failure::away(found, fix(&self.path))
    }
}

fn in_namespace<Q>(question: Q, namespace: &str) -> Result<Request<Q>, Status> {
    let mut request = Request::new(question);
    if !namespace.is_empty() {
        let value = MetadataValue::try_from(namespace);
        let value = value.map_err(|error| Status::invalid_argument(error.to_string()))?;
        request.metadata_mut().insert("containerd-namespace", value);
    }
    Ok(request)
}

/// An answer, or `None` from a server that does not know the question.
pub(super) fn if_served<A>(answer: Result<A, Status>) -> Result<Option<A>, Status> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(status) if status.code() == Code::Unimplemented => Ok(None),
        Err(status) => Err(status),
    }
}
