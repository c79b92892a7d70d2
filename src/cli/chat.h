/* cli/chat - a conversation: messages, answers, files, and the interactive loop with its
 * /commands.
 *
 * Owner: chat_free frees what the conversation holds, not the engine in k. Thread: the main one. */
#ifndef GY_CLI_CHAT_H
#define GY_CLI_CHAT_H

#include "cli/ask.h"
#include "cli/edit.h"

typedef struct {
    char role[16];
    char *text;
    size_t bytes;
} chat_message;

typedef struct {
    ask k;
    cli_args *a;
    chat_message *msg; /* [n] system first, if there is one */
    int n, cap;
    edit *edit;
    char *history;  /* path or NULL */
    char *kept[64]; /* values given to /set, which flags point to */
    int kepts;
    bool armed; /* a Ctrl-C came; the next one at an empty prompt leaves */
} chat;

bool chat_push(chat *c, const char *role, const char *text, size_t bytes);
void chat_drop(chat *c, int to); /* keeps the first `to` messages */
void chat_system(chat *c, const char *text);
/* Answers the conversation as it stands and adds the answer; an exit code. A question that cannot
 * be answered is dropped again. */
int chat_answer(chat *c);
/* Reads questions until the user leaves; an exit code. */
int chat_loop(chat *c);
void chat_free(chat *c);

/* One line "/name argument"; false to leave. chat_commands.c */
bool chat_command(chat *c, char *line);
extern const char *const chat_command_names[]; /* NULL-terminated */

#endif
