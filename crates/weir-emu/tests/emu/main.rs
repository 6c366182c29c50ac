//! The emulator's core without devices: frames in, frames out, a virtual clock.

mod common;
mod frames;
mod links;
mod simulator;
mod switch;
mod trains;
