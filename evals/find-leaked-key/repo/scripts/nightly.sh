#!/bin/sh
# Runs every night.
set -eu
export APP_USER=nightly
export APP_PASSWORD=tulip-harbour-92
python3 -m app.database
