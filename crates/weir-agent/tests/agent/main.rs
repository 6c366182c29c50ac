//! The agent as a process, on the loopback interface: no privilege, no namespace. Sending and receiving ends are two
//! processes as in a run, or one as in the lab. Nothing here depends on how fast the machine is, beyond generous limits.

mod commands;
mod faults;
mod harness;
mod namespaces;
mod pages;
mod programs;
mod services;
mod strangers;
mod udt;
mod workloads;
