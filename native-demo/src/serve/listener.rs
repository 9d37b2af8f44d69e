//! The life of the server: it listens, loads the models, answers, and ends in order.

use std::{io, sync::Arc, thread, time::Duration};

use anyhow::{Context, Result, bail};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use wisp_engine::Canceller;

use super::{
    client::RemoteAddress, memory, models::Models, options::Options, router::router, state::Server,
    write_timeout::WriteTimeout,
};
use crate::{
    interrupt,
    output::{self, message, print_line},
};

/// The time in which a client must send the head of a request, on a new connection and after an answer.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// The time in which a client must read something of its answer.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// The longest head of a request in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most connections at the same time; others wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// Threads for work that blocks, such as tokenizing.
const BLOCKING_THREADS: usize = 8;

/// The most threads that read requests and write answers.
const MAX_THREADS: usize = 8;

/// The time between two looks at whether the devices of all models were lost.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// The time after which a connection is accepted that could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The time from the loss of the last model to the end of the server, in which load balancers see what is wrong.
const LOST_TIME: Duration = Duration::from_secs(10);

/// The time that connections have to close after the last request.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Runs the server until a signal ends it. It listens before `load` loads the models, and prints its address first.
///
/// # Errors
///
/// If it cannot listen, a model cannot be loaded, the devices of all models were lost, or requests did not end in time
/// after the signal.
pub fn serve(options: Options, load: impl FnOnce() -> Result<Models>) -> Result<()> {
    options.check()?;
    memory::keep_small();
    let server = Server::new(options);
    #[cfg(feature = "otel")]
    let server = server.with_telemetry()?;
    let server = Arc::new(server);
    let runtime = runtime()?;
    let connections = Arc::new(GracefulShutdown::new());
    let (address, accepting) = listen(&runtime, &server, &connections)?;
    print_line!("{address}")?;
    output::flush()?;
    server.set_models(load()?);
    message!("serving at {address}; Ctrl-C ends the server");
    let canceller = Canceller::new();
    let (operation, wake) = (canceller.clone(), server.wake.clone());
    interrupt::begin_server(move || {
        operation.cancel();
        wake.notify_one();
    });
    let (has_lost_all, unfinished) = runtime.block_on(async {
        let has_lost_all = wait_for_end(&server, &canceller).await;
        (has_lost_all, drain(&server).await)
    });
    // The last bytes of answers are still on their way; what runs after that time is dropped, which cancels it.
    runtime.block_on(async {
        accepting.abort();
        let _ = accepting.await;
        if let Some(connections) = Arc::into_inner(connections) {
            let _ = timeout(CLOSE_TIME, connections.shutdown()).await;
        }
    });
    runtime.shutdown_timeout(CLOSE_TIME);
    #[cfg(feature = "otel")]
    if let Some(telemetry) = &server.telemetry {
        telemetry.shut_down();
    }
    interrupt::end();
    match unfinished {
        _ if has_lost_all => {
            bail!("the devices of all models were lost; the log says why")
        }
        0 => {
            interrupt::handled();
            Ok(())
        }
        count => bail!(
            "{count} requests did not end within {} s and were cut off",
            server.options.shutdown_time.as_secs()
        ),
    }
}

/// Starts the threads of a server.
///
/// # Errors
///
/// If the system has none left.
pub fn runtime() -> Result<Runtime> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cores.clamp(2, MAX_THREADS))
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("server")
        .build()
        .context("cannot start the server's threads")
}

/// Waits for a signal, or for the time when all models have been lost for [`LOST_TIME`], and returns whether they are.
async fn wait_for_end(server: &Server, canceller: &Canceller) -> bool {
    let mut lost = None;
    while !canceller.is_cancelled() {
        if server.has_lost_all() {
            let since: Instant = *lost.get_or_insert_with(Instant::now);
            if since.elapsed() >= LOST_TIME {
                return true;
            }
        }
        // A signal ends the wait.
        let _ = timeout(LOOK_TIME, server.wake.notified()).await;
    }
    false
}

/// Refuses new requests and waits for the running ones. Returns the number of those that did not end in time.
async fn drain(server: &Server) -> usize {
    server.end();
    let time = server.options.shutdown_time;
    let running = server.active_requests();
    if running > 0 {
        message!(
            "waiting at most {} s for {running} requests to end; press Ctrl-C again to exit at once",
            time.as_secs()
        );
    }
    let end = Instant::now() + time;
    while server.active_requests() > 0 && Instant::now() < end {
        // The end of the last request ends the wait.
        let _ = timeout_at(end, server.wake.notified()).await;
    }
    server.active_requests()
}

/// Begins to accept connections, and returns the server's address and the task that accepts.
fn listen(
    runtime: &Runtime,
    server: &Arc<Server>,
    connections: &Arc<GracefulShutdown>,
) -> Result<(String, JoinHandle<()>)> {
    let options = &server.options;
    let host = options
        .address()
        .map_or_else(|| options.host.clone(), |ip| ip.to_string());
    let listener = runtime.block_on(TcpListener::bind((host.as_str(), options.port)));
    let listener =
        listener.with_context(|| format!("cannot listen on {host}, port {}", options.port))?;
    let address = listener.local_addr().context("the server has no address")?;
    let accepting = runtime.spawn(accept(listener, server.clone(), connections.clone()));
    Ok((format!("http://{address}"), accepting))
}

async fn accept(listener: TcpListener, server: Arc<Server>, connections: Arc<GracefulShutdown>) {
    let router = router(server);
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // It is never closed.
    while let Ok(permit) = free.clone().acquire_owned().await {
        let (stream, remote) = match listener.accept().await {
            Ok((stream, address)) => (stream, RemoteAddress(address.ip())),
            Err(error) => {
                // Too many open files, say: others may close soon.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let router = TowerToHyperService::new(router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(remote);
            router.call(request)
        });
        let connection = connection(stream).map(|io| {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .max_headers(MAX_HEADERS)
                .max_buf_size(MAX_HEAD_BYTES)
                .serve_connection(io, service);
            connections.watch(connection)
        });
        let Ok(connection) = connection else { continue };
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(permit);
        });
    }
}

fn connection(stream: TcpStream) -> io::Result<TokioIo<WriteTimeout<TcpStream>>> {
    // Each token is sent at once.
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(WriteTimeout::new(stream, WRITE_TIME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a server that waits so long for the last requests.
    fn server(shutdown_time: Duration) -> Arc<Server> {
        Arc::new(Server::new(Options {
            shutdown_time,
            ..Options::default()
        }))
    }

    #[test]
    fn the_end_of_the_last_request_ends_the_wait() {
        let limit = Duration::from_secs(60);
        let server = server(limit);
        let requests = [server.begin(), server.begin()];
        let start = Instant::now();
        let unfinished = runtime().unwrap().block_on(async {
            tokio::spawn(async move {
                for request in requests {
                    sleep(Duration::from_millis(20)).await;
                    drop(request);
                }
            });
            drain(&server).await
        });
        assert_eq!(unfinished, 0);
        assert!(start.elapsed() < limit);
    }

    #[test]
    fn requests_that_do_not_end_are_waited_for_until_the_time_is_over() {
        let server = server(Duration::from_millis(20));
        let _request = server.begin();
        assert_eq!(runtime().unwrap().block_on(drain(&server)), 1);
    }
}
