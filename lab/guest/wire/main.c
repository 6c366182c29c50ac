// SPDX-License-Identifier: MIT OR GPL-2.0
/* The device /dev/weir: a write is a command (command.c), reading gives the rows recorded so far (count.c). */
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/pkt_sched.h>

#include "wire.h"

enum {
	MAX_COMMAND = 4096
};

struct link *links[WIRE_MAX_LINKS];
struct host hosts[WIRE_MAX_NODES];
struct flow *flows;
u32 flow_count, first_port;
u64 epoch = NEVER;
static DEFINE_MUTEX(commands);

static ssize_t wire_write(struct file *file, const char __user *buffer, size_t size, loff_t *offset)
{
	char *text;
	int error;

	if (size > MAX_COMMAND)
		return -EINVAL;
	text = memdup_user_nul(buffer, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&commands);
	error = command(text);
	mutex_unlock(&commands);
	if (error)
		pr_err("weir: cannot do: %s\n", text);
	kfree(text);
	return error ? error : size;
}

/* Returns whole pieces: the reader comes seldom and takes everything. */
static ssize_t wire_read(struct file *file, char __user *buffer, size_t size, loff_t *offset)
{
	size_t length = 0;
	void *rows = take_rows(&length);
	bool failed = length > size || (rows && copy_to_user(buffer, rows, length));

	kfree(rows);
	return failed ? -EFAULT : length;
}

static const struct file_operations wire_files = {.owner = THIS_MODULE, .read = wire_read, .write = wire_write};
static struct miscdevice wire_device = {.minor = MISC_DYNAMIC_MINOR, .name = "weir", .fops = &wire_files, .mode = 0600};

static int __init wire_init(void)
{
	BUILD_BUG_ON(sizeof(struct place) > sizeof_field(struct sk_buff, cb));
	BUILD_BUG_ON(offsetof(struct place, entered) < sizeof(struct tc_skb_cb));
	BUILD_BUG_ON(sizeof(union course) != sizeof(u32));
	init_rows();
	return misc_register(&wire_device);
}

module_init(wire_init);
MODULE_DESCRIPTION("The links of a plan");
MODULE_LICENSE("Dual MIT/GPL");
