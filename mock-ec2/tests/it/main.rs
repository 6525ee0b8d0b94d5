//! The cloud as its clients see it, in this process. One binary, which links once.

#[path = "../common/mod.rs"]
mod common;

mod account;
mod admin;
mod away;
mod broken;
mod catalogue;
mod copies;
mod direct;
mod documented;
mod endpoint;
mod faults;
mod golden;
mod images;
mod instances;
mod launch;
mod limits;
mod machine;
mod metadata;
mod model;
mod mutants;
mod mutations;
mod network;
mod pages;
mod race;
mod requests;
mod rooms;
mod services;
mod snapshots_shared;
mod state_file;
mod storage;
mod texts;
