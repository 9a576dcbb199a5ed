// One request with Node's CoAP client. Takes it as JSON, prints each response as a line of JSON:
//   {"method": "GET", "port": 5683, "path": "/a", "query": "b=c", "observe": true, "format": 40,
//    "accept": 40, "payload": "base64", "proxyUri": "coap://name/a"}
// With "observe" it goes on until its standard input ends.
'use strict'

const coap = require('coap')

const asked = JSON.parse(process.argv[2])
const request = coap.request({
  hostname: '127.0.0.1',
  port: asked.port,
  method: asked.method,
  pathname: asked.path,
  query: asked.query || '',
  proxyUri: asked.proxyUri,
  observe: Boolean(asked.observe),
  options: {}
})
const format = (number) => Buffer.from(number > 255 ? [number >> 8, number & 255] : [number])
if (asked.format !== undefined) request.setOption('Content-Format', format(asked.format))
if (asked.accept !== undefined) request.setOption('Accept', format(asked.accept))
const payload = asked.payload === undefined ? undefined : Buffer.from(asked.payload, 'base64')
// Blocks of 1,024 bytes (RFC 7959), where one datagram is too small.
if (payload !== undefined && payload.length > 1024) request.setOption('Block1', Buffer.of(0x6))

function print (response, payload) {
  const location = (response.options || [])
    .filter((option) => option.name === 'Location-Path')
    .map((option) => option.value.toString())
  const line = { code: response.code, payload: payload.toString('base64'), location }
  process.stdout.write(JSON.stringify(line) + '\n')
}

request.on('error', (error) => {
  process.stderr.write(String(error) + '\n')
  process.exit(1)
})
request.on('response', (response) => {
  if (asked.observe) {
    response.on('data', (payload) => print(response, payload))
    process.stdin.on('end', () => { response.close(); process.exit(0) })
    process.stdin.resume()
  } else {
    print(response, response.payload)
    process.exit(0)
  }
})
request.end(payload)
