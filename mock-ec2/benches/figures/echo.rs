//! Bare axum server that reads a request and answers fixed bytes: the cost of HTTP itself on this machine.

use std::process::Command;

use axum::Router;
use axum::body::Bytes;
use axum::http::header;

/// Environment variable with the answer.
const ANSWER: &str = "FIGURES_ANSWER";

/// Returns the command that starts this program as such a server at `port`, with `answer`.
pub fn command(answer: &str, port: u16) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ANSWER, answer).arg(format!("--echo={port}"));
    command
}

/// Serves on `port` until it is killed.
pub fn serve(port: u16) {
    let answer = Bytes::from(std::env::var(ANSWER).unwrap());
    let answers = move |_: Bytes| {
        let answer = answer.clone();
        async move { ([(header::CONTENT_TYPE, "text/xml;charset=UTF-8")], answer) }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        axum::serve(listener, Router::new().fallback(answers)).await.unwrap();
    });
}
