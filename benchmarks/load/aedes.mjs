// A broker on aedes, as its README starts one: node aedes.mjs PORT
import { createServer } from 'node:net'
import { Aedes } from 'aedes'

const aedes = await Aedes.createBroker()
createServer({ noDelay: true }, aedes.handle).listen(Number(process.argv[2]), '127.0.0.1')
