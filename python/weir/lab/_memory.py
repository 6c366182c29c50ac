"""Changes in the kernel's sources that spare the processor waits for memory, and leave what it computes as it was.

At 10 Gb/s and 10 ms, tens of thousands of packets are on their way, a lot more than the caches hold: each is fetched
from memory anew wherever it goes. Where it will go next is known in time.
"""

# ruff: noqa: E101 - the kernel's indentation, tabs and then spaces

from __future__ import annotations

from weir.lab._edit import Edit

__all__ = ["MEMORY"]

_COLLAPSE = Edit(
    "arch/um/os-Linux/process.c",
    "int os_protect_memory(void *addr, unsigned long len, int r, int w, int x)\n",
    """\
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Makes a huge page of the host of memory that is one's size and place. */
int os_collapse_memory(void *addr, unsigned long len)
{
	volatile char *first = addr;

	*first = *first; /* of nothing, none can be made */
	return madvise(addr, len, MADV_COLLAPSE);
}

int os_protect_memory(void *addr, unsigned long len, int r, int w, int x)
""",
    "each four kilobytes of the guest's memory would have an entry in the host's tables, too many to be cached",
)

_COLLAPSE_DECLARED = Edit(
    "arch/um/include/shared/os.h",
    "extern int os_protect_memory(void *addr, unsigned long len,\n",
    """\
extern int os_collapse_memory(void *addr, unsigned long len);
extern int os_protect_memory(void *addr, unsigned long len,
""",
    "it is used elsewhere",
)

_PAGE_TAKEN_DECLARED = Edit(
    "arch/um/include/asm/page.h",
    "extern unsigned long uml_physmem;\n",
    """\
#define HAVE_ARCH_ALLOC_PAGE
struct page;
void arch_alloc_page(struct page *page, int order);

extern unsigned long uml_physmem;
""",
    "huge pages are made where memory is taken, so that what is never taken takes no memory of the host",
)

_PAGE_TAKEN = Edit(
    "arch/um/kernel/physmem.c",
    "int phys_mapping(unsigned long phys, unsigned long long *offset_out)\n",
    """\
#define HUGE_BYTES (2UL << 20)
#define HUGE_MOST 32768

/* The memory in pieces of the size of a huge page: which were taken. */
static DECLARE_BITMAP(huge_taken, HUGE_MOST);
static bool huge_refused;

static void take_huge(unsigned long piece)
{
	unsigned long virt = uml_physmem + piece * HUGE_BYTES;

	__set_bit(piece, huge_taken);
	if (virt >= uml_reserved && virt + HUGE_BYTES <= high_physmem)
		huge_refused = os_collapse_memory((void *)virt, HUGE_BYTES);
}

/* A host that refuses once is not asked again. */
void arch_alloc_page(struct page *page, int order)
{
	unsigned long begin = page_to_phys(page);
	unsigned long last = (begin + (PAGE_SIZE << order) - 1) / HUGE_BYTES;

	for (unsigned long piece = begin / HUGE_BYTES; piece <= last; piece++)
		if (piece < HUGE_MOST && !test_bit(piece, huge_taken) && !huge_refused)
			take_huge(piece);
}

int phys_mapping(unsigned long phys, unsigned long long *offset_out)
""",
    "huge pages are made where memory is taken",
)

_NEWEST = Edit(
    "net/ipv4/tcp_output.c",
    """\
	__skb_unlink(skb, &sk->sk_write_queue);
	tcp_rbtree_insert(&sk->tcp_rtx_queue, skb);

	if (tp->highest_sack == NULL)
""",
    """\
	__skb_unlink(skb, &sk->sk_write_queue);
	tcp_append_rtx(sk, skb);
	tcp_prefetch_unsent(tcp_send_head(sk));

	if (tp->highest_sack == NULL)
""",
    "what is sent goes behind what was sent last, which need not be looked for; what will be sent next is known",
)

_NEWEST_FUNCTIONS = Edit(
    "net/ipv4/tcp_output.c",
    "/* Account for new data that has been sent to the network. */\n",
    """\
/*
 * Puts new data, the last in the list of what was sent, at the end of the
 * tree: where the search would find its place, behind its predecessor.
 */
static void tcp_append_rtx(struct sock *sk, struct sk_buff *skb)
{
	struct list_head *before = skb->tcp_tsorted_anchor.prev;
	struct sk_buff *last = list_entry(before, struct sk_buff, tcp_tsorted_anchor);

	if (list_is_last(&skb->tcp_tsorted_anchor, &tcp_sk(sk)->tsorted_sent_queue) &&
	    before != &tcp_sk(sk)->tsorted_sent_queue &&
	    TCP_SKB_CB(last)->end_seq == TCP_SKB_CB(skb)->seq && !last->rbnode.rb_right) {
		rb_link_node(&skb->rbnode, &last->rbnode, &last->rbnode.rb_right);
		rb_insert_color(&skb->rbnode, &sk->tcp_rtx_queue);
	} else {
		tcp_rbtree_insert(&sk->tcp_rtx_queue, skb);
	}
}

/* What sending the next packet will touch of it, and where the one after it is. */
static __always_inline void tcp_prefetch_unsent(struct sk_buff *skb)
{
	if (skb) {
		prefetch(skb_shinfo(skb));
		tcp_prefetch_skb(skb->next);
	}
}

/* Account for new data that has been sent to the network. */
""",
    "it is used there",
)

_PREFETCH = Edit(
    "include/net/tcp.h",
    "static inline struct sk_buff *tcp_rtx_queue_head(const struct sock *sk)\n",
    """\
/* The caches shall have the description of a packet, be there one or not. */
static __always_inline void tcp_prefetch_skb(const void *skb)
{
	for (size_t at = 0; at < sizeof(struct sk_buff); at += 64)
		prefetch(skb + at);
}

static inline struct sk_buff *tcp_rtx_queue_head(const struct sock *sk)
""",
    "it is used where packets are sent and acknowledged",
)

_OLDEST = Edit(
    "net/ipv4/tcp_input.c",
    """\
		u8 sacked = scb->sacked;
		u32 acked_pcount;

		/* Determine how many packets""",
    """\
		u8 sacked = scb->sacked;
		u32 acked_pcount;

		prefetch(skb_shinfo(skb));
		tcp_prefetch_skb(list_next_entry(skb, tcp_tsorted_anchor));

		/* Determine how many packets""",
    "what will be acknowledged next is known, and was not touched since it was sent",
)

MEMORY = (
    *(_COLLAPSE, _COLLAPSE_DECLARED, _PAGE_TAKEN_DECLARED, _PAGE_TAKEN),
    *(_PREFETCH, _NEWEST_FUNCTIONS, _NEWEST, _OLDEST),
)
"""All of them."""
