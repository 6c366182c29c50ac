/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The receiver's part of DCTCP (RFC 8257 section 3.2): an acknowledgement echoes the mark of the packets that it
 * covers. When the mark changes, weir_echo_mark() of a kernel's shim first acknowledges the packets before, if their
 * acknowledgement is delayed, with the mark that they had; the new packet is acknowledged at once.
 */
#ifndef WEIR_SHIM_ECHO_H
#define WEIR_SHIM_ECHO_H

struct weir_echo {
	u32 rcv_nxt; /* next byte expected after the packet before */
	u32 is_marked;
};

#endif
