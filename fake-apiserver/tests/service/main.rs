//! The server as a client sees it, through its HTTP service in virtual time.

#![cfg(test)]

mod accounts;
mod admin;
mod apply;
mod audit;
mod broken;
mod catalogue;
mod certificates;
mod client;
mod conformance;
mod conversion;
mod decoding;
mod details;
mod encoding;
mod event_views;
mod events;
mod expressions;
mod faults;
mod fields;
mod identity;
mod kinds;
mod linearizable;
mod logs;
#[cfg(any(debug_assertions, feature = "mutants"))]
mod mutants;
mod mutations;
mod order;
mod origin;
mod ownership;
mod parameters;
mod pod_security;
mod points;
mod protobuf;
mod proxy;
mod quotas;
mod rbac;
mod recorded;
mod representations;
mod requests;
mod requirements;
mod reviews;
mod robust;
mod signing;
mod slow;
mod unicode;
mod warnings;
mod watches;
mod webhooks;
mod words;
mod yaml;

use std::time::Duration;

use client::{claim, in_simulation, in_simulation_with, pod};
use http::Method;
use substrate::json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}
