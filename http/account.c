/* A bucket of tokens for each account: filled at the rate of the limit, never with more than one minute's worth. */
#include "http/account.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

roco_account *roco_account_open(const char *name, const roco_account_limits *limits, uint64_t now_ns)
{
    roco_account *account = calloc(1, sizeof *account);
    if (!account)
        return NULL;
    snprintf(account->name, sizeof account->name, "%s", name);
    account->share.name = account->name;
    account->n_holders = 1;
    roco_account_set_limits(account, limits, now_ns);
    return account;
}

void roco_account_hold(roco_account *account)
{
    account->n_holders++;
}

void roco_account_release(roco_account *account)
{
    if (account && --account->n_holders == 0)
        free(account);
}

static void refill(roco_account *account, uint64_t now_ns)
{
    double whole = account->limits.tokens_per_minute;
    account->tokens_left += whole * (double)(now_ns - account->refilled_ns) / 60e9;
    if (account->tokens_left > whole)
        account->tokens_left = whole;
    account->refilled_ns = now_ns;
}

void roco_account_set_limits(roco_account *account, const roco_account_limits *limits, uint64_t now_ns)
{
    bool limited_before = account->limits.tokens_per_minute != 0;
    account->limits = *limits;
    account->share.max_running = limits->running;
    account->share.max_queued = limits->queued;
    if (!limited_before) {
        account->tokens_left = limits->tokens_per_minute;
        account->refilled_ns = now_ns;
    }
}

uint32_t roco_account_wait_s(roco_account *account, uint64_t now_ns)
{
    if (account->limits.tokens_per_minute == 0)
        return 0;
    refill(account, now_ns);
    if (account->tokens_left >= 1)
        return 0;
    double seconds = ceil((1 - account->tokens_left) * 60 / account->limits.tokens_per_minute);
    return seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

void roco_account_charge(roco_account *account, uint64_t prompt_tokens, uint64_t answer_tokens)
{
    account->prompt_tokens += prompt_tokens;
    account->answer_tokens += answer_tokens;
    if (account->limits.tokens_per_minute != 0)
        account->tokens_left -= (double)(prompt_tokens + answer_tokens);
}
